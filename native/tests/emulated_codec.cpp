// Codes and decodes blocks as a group of a GPU's warps does, on the host. tests/native/ builds it,
// and compares what it makes with the host's streams.
//
//   emulated_codec encode CODEC DTYPE DIMENSIONALITY VERSION ARRAY FIRST  < values  >
//   entries, payloads
//   emulated_codec decode CODEC DTYPE DIMENSIONALITY VERSION ARRAY FIRST BYTES
//   < entries, payloads  > faults, values
//
// Codec and type are the numbers that streams have; blocks are bound to an array, where the first
// one has a number. A fault is 4 bytes for each block, 0 if none.

#include "emulated_bytes.hpp"

// After it:
#include <cstring>
#include <string>

#include "compress/device_decode.cuh"
#include "compress/device_encode.cuh"
#include "compress/strips.hpp"

namespace lanescope::compress {

namespace {

struct Job {
  Codec codec;
  Dtype dtype;
  Settings settings;
  Binding binding;
};

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

template <typename Strip>
void encode(const Job& job, const std::vector<std::byte>& values) {
  const std::size_t blocks = blocks_of(values.size());
  Exact in(values.size()), payloads(padded(values.size()));
  Exact staging(DeviceShape<Strip>::kEncodeRoom * kStrips);
  if (!values.empty()) std::memcpy(in.data, values.data(), values.size());
  std::vector<Entry> entries(blocks);
  unsigned long long used = 0;
  Sink sink{entries.data(), payloads.data, padded(values.size()), &used};
  sink.binding = job.binding;
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    GroupEncoder<Strip> encoder{Group::mine(&shared), staging.data, sink, job.settings,
                                static_cast<std::uint32_t>(bytes_of(job.dtype))};
    for (std::size_t i = 0; i < blocks; ++i)
      encoder.encode(in.data + i * kBlockBytes, block_bytes(values.size(), i), i, [] {});
  });
  write_all(entries.data(), blocks * sizeof(Entry));
  write_all(payloads.data, bytes_used(used));
}

template <typename Strip>
void decode(const Job& job, const std::vector<std::byte>& coded, std::size_t bytes) {
  using Shape = DeviceShape<Strip>;
  constexpr std::size_t kStaging = Shape::kDecodeRoom + Shape::kTileBytes;
  const std::size_t blocks = blocks_of(bytes), room = coded.size() - blocks * sizeof(Entry);
  std::vector<Entry> entries(blocks);
  std::memcpy(entries.data(), coded.data(), blocks * sizeof(Entry));
  Exact payloads(room), out(bytes);
  std::memcpy(payloads.data, coded.data() + blocks * sizeof(Entry), room);
  std::vector<std::unique_ptr<Exact>> staging;
  for (std::size_t i = 0; i < kStrips; ++i) staging.push_back(std::make_unique<Exact>(kStaging));
  std::vector<Wrong> wrong(blocks);
  GroupShared shared{};
  emulated::Threads::only().run([&] {
    const Group group = Group::mine(&shared);
    GroupDecoder<Strip> decoder{group,         staging[group.warp]->data,
                                payloads.data, room,
                                job.settings,  static_cast<std::uint32_t>(bytes_of(job.dtype)),
                                job.binding,   0};
    for (std::size_t i = 0; i < blocks; ++i) {
      const Wrong found =
          decoder.decode(entries[i], out.data + i * kBlockBytes, block_bytes(bytes, i), i);
      if (group.leads()) wrong[i] = found;
    }
  });
  write_all(wrong.data(), blocks * sizeof(Wrong));
  write_all(out.data, bytes);
}

int run(int count, char** arguments) {
  if (count < 8) return 1;
  const auto version = static_cast<std::uint32_t>(std::atoi(arguments[5]));
  const Job job{static_cast<Codec>(std::atoi(arguments[2])),
                static_cast<Dtype>(std::atoi(arguments[3])),
                {std::atoi(arguments[4]), version},
                {std::strtoull(arguments[6], nullptr, 10), std::strtoull(arguments[7], nullptr, 10),
                 version >= kFirstBoundVersion}};
  const auto given = read_all();
  const auto go = [&]<typename Strip>(Strip) {
    if (std::string(arguments[1]) == "encode")
      encode<Strip>(job, given);
    else
      decode<Strip>(job, given, std::strtoull(arguments[8], nullptr, 10));
  };
  if (!with_strip(job.codec, job.dtype, go)) go(NoStrip{});
  return 0;
}

}  // namespace

}  // namespace lanescope::compress

int main(int count, char** arguments) {
  return lanescope::compress::run(count, arguments);
}
