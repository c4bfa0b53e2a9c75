#include "compress/device_codec.hpp"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "compress/gather_kernels.hpp"
#include "compress/nvcomp_blocks.hpp"
#include "compress/update_kernels.hpp"

namespace lanescope::compress {

namespace {

Choice checked(const Choice& choice, std::span<const std::uint64_t> shape) {
  if (!by_nvcomp(choice.codec)) require_possible(choice);
  if (by_nvcomp(choice.codec) && choice.difference != UpdateKind::none)
    throw Error("compress", 0, "bad choice", "codecs of nvCOMP make no updates");
  if (shape.size() > kMostDimensions)
    throw Error("compress", 0, "bad shape", "an array has more than 16 dimensions");
  return choice;
}

const Nvcomp& required(const Nvcomp* nvcomp, Codec codec) {
  if (nvcomp == nullptr) Nvcomp::refuse(codec);
  return *nvcomp;
}

/// Bytes of memory in which the payloads of an array have room.
std::size_t room_of(const Choice& choice, std::size_t bytes, const Nvcomp* nvcomp) {
  if (!by_nvcomp(choice.codec)) return padded(bytes);
  return NvcompEncoder::room_of(required(nvcomp, choice.codec), choice, bytes);
}

/// The sum of the checksum of an array that is aligned to 16 bytes, when it is there.
std::uint64_t sum_on_device(const std::byte* data, std::size_t bytes, cudaStream_t stream) {
  const StreamMemory there(sizeof(unsigned long long), stream);
  set_behind(there.data(), 0, sizeof(unsigned long long), stream);
  sum_blocks(data, bytes, there.as<unsigned long long>(), stream);
  unsigned long long sum = 0;
  copy_behind(&sum, there.data(), sizeof sum, stream);
  wait_for(stream);
  return sum;
}

/// Says what is wrong with a block as the host says it, who decodes that one again.
[[noreturn]] void refuse(const Layout& layout, std::span<const std::byte> compressed,
                         std::size_t block, cudaStream_t stream) {
  const auto payload = fetch(compressed.data() + layout.offsets[block],
                             padded(layout.blocks[block].payload_bytes()), stream);
  std::vector<std::byte> out(
      std::min<std::size_t>(kBlockBytes, layout.header.bytes - block * kBlockBytes));
  restore_block(layout, block, payload, out);
  throw Error("decompress", 0, "bad block",
              "block " + std::to_string(block) +
                  ": the GPU refuses what the host takes; decompress it on the host");
}

}  // namespace

DeviceEncoding::DeviceEncoding(const Choice& choice, std::span<const std::byte> data,
                               std::span<const std::uint64_t> shape, int sms, cudaStream_t stream,
                               const Nvcomp* nvcomp, Base base)
    : data_(data),
      base_(base),
      blocks_(blocks_of(data.size())),
      stream_(stream),
      entries_(blocks_ * sizeof(Entry), stream),
      payloads_(room_of(checked(choice, shape), data.size(), nvcomp), stream),
      header_(header_of(choice, data.size(), shape)) {
  std::optional<StreamMemory> differences;
  std::uint64_t sum = 0;
  if (choice.difference != UpdateKind::none) {
    require_base_of(data.size(), base);
    const AlignedInput values(data, stream), old(*base, stream);
    sum = sum_on_device(old.data(), data.size(), stream);
    differences.emplace(data.size(), stream);
    take_differences(Differing::of(choice.difference, bytes_of(choice.dtype)), values.data(),
                     old.data(), differences->data(), data.size(), stream);
  }
  words_ = words_behind(header_, sum, shape);
  const StreamMemory counter(sizeof(unsigned long long), stream);
  set_behind(counter.data(), 0, sizeof(unsigned long long), stream);
  Sink sink{entries_.as<Entry>(), payloads_.data(), padded(data.size()),
            counter.as<unsigned long long>()};
  sink.binding = binding_of(header_, words_);
  encode(choice, differences ? std::span<const std::byte>(differences->data(), data.size()) : data,
         sms, sink, nvcomp);
  unsigned long long used = 0;
  copy_behind(&used, counter.data(), sizeof used, stream);
  wait_for(stream);
  header_.stored_bytes = front_bytes(words_.size(), blocks_) + bytes_used(used);
}

void DeviceEncoding::encode(const Choice& choice, std::span<const std::byte> data, int sms,
                            const Sink& sink, const Nvcomp* nvcomp) const {
  const AlignedInput in(data, stream_);
  if (by_nvcomp(choice.codec)) {
    const NvcompEncoder encoder(*nvcomp, choice, {in.data(), data.size()}, sink, stream_);
    encoder.encode();
    encoder.require_coded();
  } else {
    encode_blocks(choice, in.data(), data.size(), sink, sms, stream_);
  }
}

void DeviceEncoding::write(std::span<std::byte> out) const {
  if (out.size() < stream_bytes())
    throw Error("compress", 0, "no room",
                "the stream has " + std::to_string(stream_bytes()) +
                    " bytes, and there is room "
                    "for " +
                    std::to_string(out.size()));
  if (!is_aligned(out.data()))
    throw Error("compress", 0, "bad values",
                "a stream in a GPU's memory has to begin at a multiple of 16 bytes");
  require_apart_to_compress(data_, out.first(stream_bytes()));
  if (base_) require_apart_to_compress(*base_, out.first(stream_bytes()));
  const std::size_t front = front_bytes(words_.size(), blocks_);
  std::vector<std::byte> head(head_bytes(words_.size()));
  Header header = header_;
  seal(header, words_, {});  // where there are blocks, a kernel does so
  std::memcpy(head.data(), &header, sizeof header);
  if (!words_.empty()) std::memcpy(head.data() + sizeof header, words_.data(), 8 * words_.size());
  set_behind(out.data() + front - kPayloadAlignment, 0, kPayloadAlignment, stream_);
  copy_behind(out.data(), head.data(), head.size(), stream_);
  const StreamMemory offsets(blocks_ * sizeof(std::uint64_t), stream_);
  const auto* entries = reinterpret_cast<const Entry*>(entries_.data());
  auto* places = reinterpret_cast<std::uint64_t*>(offsets.data());
  const Front target{reinterpret_cast<Descriptor*>(out.data() + head.size()),
                     reinterpret_cast<std::uint32_t*>(out.data() + offsetof(Header, checksum)),
                     sum_before_descriptors(header, words_), first_descriptor_place(words_.size())};
  order_entries(entries, blocks_, target, places, stream_);
  gather_payloads(entries, blocks_, payloads_.data(), places, out.data() + front, stream_);
  wait_for(stream_);
}

std::size_t compress_on_device(const Choice& choice, std::span<const std::byte> data,
                               std::span<const std::uint64_t> shape, std::span<std::byte> out,
                               cudaStream_t stream, int sms, const Nvcomp* nvcomp, Base base) {
  const DeviceEncoding encoding(choice, data, shape, sms, stream, nvcomp, base);
  encoding.write(out);
  return encoding.stream_bytes();
}

Layout layout_on_device(std::span<const std::byte> compressed, cudaStream_t stream) {
  const auto header = fetch(compressed.data(), std::min(compressed.size(), sizeof(Header)), stream);
  const std::size_t length = front_length(header, compressed.size());
  return layout_of(fetch(compressed.data(), length, stream), compressed.size());
}

namespace {

/// Decodes blocks in aligned memory, and waits for it; the lowest block that is wrong, if one is.
std::optional<std::size_t> decode_here(const Choice& choice, const Binding& binding,
                                       std::span<const Entry> entries_on_host,
                                       const std::byte* payloads, std::size_t room,
                                       std::span<std::byte> out, int sms, cudaStream_t stream) {
  const StreamMemory entries(entries_on_host.size_bytes(), stream), faults(sizeof(Fault), stream);
  copy_behind(entries.data(), entries_on_host.data(), entries_on_host.size_bytes(), stream);
  set_behind(faults.data(), 0, sizeof(Fault), stream);
  decode_blocks(choice, binding, entries.as<Entry>(), payloads, room, out.data(), out.size(),
                faults.as<Fault>(), sms, stream);
  Fault found{};
  copy_behind(&found, faults.data(), sizeof found, stream);
  wait_for(stream);
  if (found.blocks == 0) return std::nullopt;
  return found.first_block - 1;
}

/// Puts differences, which are checked, onto a base that is, too.
void put_here(const Layout& layout, std::span<const std::byte> differences, const std::byte* base,
              std::byte* out, cudaStream_t stream) {
  const StreamMemory nothing(sizeof(Fault) + sizeof(unsigned long long), stream);
  set_behind(nothing.data(), 0, sizeof(Fault) + sizeof(unsigned long long), stream);
  const BaseCheck agreed{nothing.as<unsigned long long>(), nullptr, 0, nullptr};
  const auto* no_fault =
      reinterpret_cast<const Fault*>(nothing.data() + sizeof(unsigned long long));
  put_differences(Differing::of(layout.header.difference(), bytes_of(layout.header.dtype)),
                  differences.data(), base, out, differences.size(), no_fault, agreed, stream);
}

}  // namespace

void decompress_on_device(const Layout& layout, std::span<const std::byte> compressed,
                          std::span<std::byte> out, cudaStream_t stream, int sms,
                          const Nvcomp* nvcomp, Base base) {
  require_room(layout, out.size());
  require_base(layout, base, out);
  if (out.empty()) return;
  require_apart_to_decompress(compressed, out);
  std::optional<AlignedInput> old;
  if (base) old.emplace(*base, stream);
  if (base) require_sum(layout, sum_on_device(old->data(), base->size(), stream));
  const Header& header = layout.header;
  const Choice choice{header.codec, header.dtype, header.dimensionality, header.version};
  const std::size_t front = layout.offsets.front();
  std::vector<Entry> entries_on_host(layout.blocks.size());
  for (std::size_t i = 0; i < entries_on_host.size(); ++i)
    entries_on_host[i] = {layout.blocks[i], layout.offsets[i] - front};

  const AlignedInput in(compressed, stream);
  std::optional<StreamMemory> apart;  // from the array, where what is decoded cannot lie there
  if (base || !is_aligned(out.data())) apart.emplace(out.size(), stream);
  const std::span values(apart ? apart->data() : out.data(), out.size());
  const std::byte* payloads = in.data() + front;
  const std::size_t room = compressed.size() - front;
  std::optional<std::size_t> wrong;
  if (by_nvcomp(header.codec)) {
    const NvcompDecoder decoder(nvcomp, choice, layout.binding, entries_on_host, payloads, room,
                                values, stream);
    wrong = decoder.check();
    if (!wrong) decoder.decode();
  } else {
    wrong =
        decode_here(choice, layout.binding, entries_on_host, payloads, room, values, sms, stream);
  }
  if (base && !wrong)
    put_here(layout, {values.data(), values.size()}, old->data(),
             is_aligned(out.data()) ? out.data() : values.data(), stream);
  if (apart && !(base && (wrong || is_aligned(out.data()))))
    copy_behind(out.data(), values.data(), out.size(), stream);
  if (apart) wait_for(stream);
  if (wrong) refuse(layout, compressed, *wrong, stream);
}

std::size_t compress_through_device(int device, const Choice& choice,
                                    std::span<const std::byte> data,
                                    std::span<const std::uint64_t> shape, std::span<std::byte> out,
                                    const Nvcomp& nvcomp) {
  const ScopedDevice scope(device);
  const Stream stream(device);
  const StreamMemory values(data.size(), stream.get());
  copy_behind(values.data(), data.data(), data.size(), stream.get());
  const DeviceEncoding encoding(choice, {values.data(), data.size()}, shape, 0, stream.get(),
                                &nvcomp);
  if (out.size() < encoding.stream_bytes())
    throw Error("compress", 0, "no room", "the stream has less room than it may need");
  require_apart_to_compress(data, out.first(encoding.stream_bytes()));
  const StreamMemory compressed(encoding.stream_bytes(), stream.get());
  encoding.write({compressed.data(), encoding.stream_bytes()});
  copy_behind(out.data(), compressed.data(), encoding.stream_bytes(), stream.get());
  wait_for(stream.get());
  return encoding.stream_bytes();
}

void decompress_through_device(int device, std::span<const std::byte> compressed,
                               std::span<std::byte> out, const Nvcomp& nvcomp) {
  const Layout layout = layout_of(compressed);
  require_room(layout, out.size());
  require_apart_to_decompress(compressed, out);
  const ScopedDevice scope(device);
  const Stream stream(device);
  const StreamMemory there(compressed.size(), stream.get()), values(out.size(), stream.get());
  copy_behind(there.data(), compressed.data(), compressed.size(), stream.get());
  decompress_on_device(layout, {there.data(), compressed.size()}, {values.data(), out.size()},
                       stream.get(), 0, &nvcomp);
  copy_behind(out.data(), values.data(), out.size(), stream.get());
  wait_for(stream.get());
}

}  // namespace lanescope::compress
