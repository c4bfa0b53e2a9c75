#include "compress/device_timing.hpp"

#include <optional>
#include <string>

#include "compress/channel.hpp"
#include "compress/device_kernels.hpp"
#include "compress/nvcomp_blocks.hpp"
#include "compress/update_lanes.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

/// Sums of an update's base, and what its kernels keep.
class UpdateMemory {
 public:
  UpdateMemory(int device, const Choice& choice, std::size_t blocks)
      : sums_(device, blocks * sizeof(unsigned long long)) {
    if (keeps_blocks(choice)) room_.emplace(device, bytes_kept_on(sms_of(device, {})));
  }

  unsigned long long* sums() const { return static_cast<unsigned long long*>(sums_.data()); }
  std::byte* room() const { return room_ ? static_cast<std::byte*>(room_->data()) : nullptr; }

 private:
  DeviceMemory sums_;
  std::optional<DeviceMemory> room_;
};

}  // namespace

DeviceTimes time_on_device(int device, const Choice& choice, std::span<const std::byte> data,
                           int sms, int repeats, std::byte* out, const std::byte* base) {
  const ScopedDevice scope(device);
  const std::size_t blocks = blocks_of(data.size());
  const std::size_t room = padded(data.size());
  const DeviceMemory entries(device, blocks * sizeof(Entry) + 1), payloads(device, room + 1);
  const DeviceMemory used(device, sizeof(unsigned long long)), fault(device, sizeof(Fault));
  std::optional<DeviceMemory> own;
  if (out == nullptr) out = static_cast<std::byte*>(own.emplace(device, room + 1).data());
  const Stream stream(device);
  const Event begin, encoded, decoding, decoded;
  auto* coded_entries = static_cast<Entry*>(entries.data());
  auto* coded = static_cast<std::byte*>(payloads.data());

  Sink sink{coded_entries, coded, room, static_cast<unsigned long long*>(used.data())};
  PutBase put;
  std::optional<UpdateMemory> kept;
  if (base != nullptr) {
    kept.emplace(device, choice, blocks);
    const Differing differing = differing_of(choice);
    sink.taken = {base, differing, kept->sums(), kept->room()};
    put = {base, differing, kept->sums(), kept->room(), static_cast<Fault*>(fault.data())};
  }

  DeviceTimes times;
  check(cudaMemsetAsync(fault.data(), 0, sizeof(Fault), stream.get()), "cudaMemsetAsync");
  for (int i = 0; i <= repeats; ++i) {
    check(cudaMemsetAsync(used.data(), 0, sizeof(unsigned long long), stream.get()),
          "cudaMemsetAsync");
    check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
    encode_blocks(choice, data.data(), data.size(), sink, sms, stream.get());
    check(cudaEventRecord(encoded.get(), stream.get()), "cudaEventRecord");
    check(cudaEventRecord(decoding.get(), stream.get()), "cudaEventRecord");
    if (base != nullptr)
      decode_onto_base(choice, {}, coded_entries, coded, room, put, out, data.size(),
                       static_cast<Fault*>(fault.data()), sms, stream.get());
    else
      decode_blocks(choice, {}, coded_entries, coded, room, out, data.size(),
                    static_cast<Fault*>(fault.data()), sms, stream.get());
    check(cudaEventRecord(decoded.get(), stream.get()), "cudaEventRecord");
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (i == 0) continue;
    times.encode_s.push_back(encoded.seconds_since(begin));
    times.decode_s.push_back(decoded.seconds_since(decoding));
  }
  unsigned long long bytes = 0;
  check(cudaMemcpy(&bytes, used.data(), sizeof bytes, cudaMemcpyDefault), "cudaMemcpy");
  times.payload_bytes = bytes_used(bytes);
  Fault found{};
  check(cudaMemcpy(&found, fault.data(), sizeof found, cudaMemcpyDefault), "cudaMemcpy");
  if (found.blocks > 0)
    throw Error("decode_blocks", static_cast<int>(found.what), "bad block",
                "block " + std::to_string(found.first_block - 1) + " and " +
                    std::to_string(found.blocks - 1) + " others do not come back");
  return times;
}

DeviceTimes time_nvcomp(int device, const Nvcomp& nvcomp, const Choice& choice,
                        std::span<const std::byte> data, int repeats, std::byte* out) {
  const ScopedDevice scope(device);
  const std::size_t blocks = blocks_of(data.size());
  const std::size_t room = NvcompEncoder::room_of(nvcomp, choice, data.size());
  const Stream stream(device);
  const StreamMemory entries(blocks * sizeof(Entry), stream.get()), payloads(room, stream.get());
  const StreamMemory used(sizeof(unsigned long long), stream.get());
  const NvcompEncoder encoder(
      nvcomp, choice, data,
      {entries.as<Entry>(), payloads.data(), room, used.as<unsigned long long>()}, stream.get());
  const Event begin, end;
  DeviceTimes times;
  const auto time = [&](int turn, std::vector<double>& seconds, auto step) {
    check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
    step();
    check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
    wait_for(stream.get());
    if (turn > 0) seconds.push_back(end.seconds_since(begin));
  };
  for (int i = 0; i <= repeats; ++i) {
    set_behind(used.data(), 0, sizeof(unsigned long long), stream.get());
    time(i, times.encode_s, [&] { encoder.encode(); });
    encoder.require_coded();
  }
  std::vector<Entry> coded_entries(blocks);
  copy_behind(coded_entries.data(), entries.data(), blocks * sizeof(Entry), stream.get());
  unsigned long long bytes = 0;
  copy_behind(&bytes, used.data(), sizeof bytes, stream.get());
  wait_for(stream.get());
  times.payload_bytes = bytes_used(bytes);
  const NvcompDecoder decoder(&nvcomp, choice, {}, coded_entries, payloads.data(), room,
                              {out, data.size()}, stream.get());
  for (int i = 0; i <= repeats; ++i)
    time(i, times.decode_s, [&] {
      if (const auto wrong = decoder.check())
        throw Error("check_blocks", 1, "bad block",
                    "block " + std::to_string(*wrong) + " does not come back");
      decoder.decode();
    });
  return times;
}

}  // namespace lanescope::compress
