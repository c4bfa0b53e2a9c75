#include "lanescope/compress/device_codec.hpp"

#include <cstring>
#include <optional>
#include <string>

#include "lanescope/compress/gather_kernels.hpp"
#include "lanescope/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void clear(void* at, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemsetAsync(at, 0, bytes, stream), "cudaMemsetAsync");
}

void wait_for(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::vector<std::byte> fetch(const std::byte* from, std::size_t bytes, cudaStream_t stream) {
  std::vector<std::byte> got(bytes);
  copy(got.data(), from, bytes, stream);
  wait_for(stream);
  return got;
}

/// Memory as it is if kernels can read it so, else a copy that begins where they can.
class AlignedInput {
 public:
  AlignedInput(std::span<const std::byte> from, cudaStream_t stream) : data_(from.data()) {
    if (is_aligned(data_)) return;
    copy_.emplace(padded(from.size()), stream);
    copy(copy_->data(), from.data(), from.size(), stream);
    data_ = copy_->data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  std::optional<StreamMemory> copy_;
};

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

Choice checked(const Choice& choice, std::span<const std::uint64_t> shape) {
  require_possible(choice);
  if (shape.size() > kMostDimensions)
    throw Error("compress", 0, "bad shape", "an array has more than 16 dimensions");
  return choice;
}

Header header_of(const Choice& choice, std::size_t bytes, const std::vector<std::uint64_t>& shape) {
  Header header;
  header.codec = choice.codec;
  header.dtype = choice.dtype;
  header.dimensionality = static_cast<std::uint8_t>(choice.dimensionality);
  header.bytes = bytes;
  header.blocks = static_cast<std::uint32_t>(blocks_of(bytes));
  header.dimensions = static_cast<std::uint8_t>(shape.size());
  return header;
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

StreamMemory::StreamMemory(std::size_t bytes, cudaStream_t stream) : stream_(stream) {
  void* data = nullptr;
  if (bytes > 0) check(cudaMallocAsync(&data, bytes, stream), "cudaMallocAsync");
  data_ = static_cast<std::byte*>(data);
}

StreamMemory::~StreamMemory() {
  if (data_ != nullptr) forgive(cudaFreeAsync(data_, stream_));
}

DeviceEncoding::DeviceEncoding(const Choice& choice, std::span<const std::byte> data,
                               std::span<const std::uint64_t> shape, int sms, cudaStream_t stream)
    : shape_(shape.begin(), shape.end()),
      blocks_(blocks_of(data.size())),
      stream_(stream),
      entries_(blocks_ * sizeof(Entry), stream),
      payloads_(padded(data.size()), stream),
      header_(header_of(checked(choice, shape), data.size(), shape_)) {
  const AlignedInput in(data, stream);
  const StreamMemory counter(sizeof(unsigned long long), stream);
  clear(counter.data(), sizeof(unsigned long long), stream);
  const Sink sink{reinterpret_cast<Entry*>(entries_.data()), payloads_.data(), padded(data.size()),
                  reinterpret_cast<unsigned long long*>(counter.data())};
  encode_blocks(choice, in.data(), data.size(), sink, sms, stream);
  unsigned long long used = 0;
  copy(&used, counter.data(), sizeof used, stream);
  wait_for(stream);
  header_.stored_bytes = front_bytes(shape_.size(), blocks_) + bytes_used(used);
  seal(header_, shape_);
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
  const std::size_t front = front_bytes(shape_.size(), blocks_);
  const std::size_t descriptors = sizeof(Header) + 8 * shape_.size();
  std::vector<std::byte> head(descriptors);
  std::memcpy(head.data(), &header_, sizeof header_);
  if (!shape_.empty()) std::memcpy(head.data() + sizeof header_, shape_.data(), 8 * shape_.size());
  clear(out.data() + front - kPayloadAlignment, kPayloadAlignment, stream_);
  copy(out.data(), head.data(), head.size(), stream_);
  const StreamMemory offsets(blocks_ * sizeof(std::uint64_t), stream_);
  const auto* entries = reinterpret_cast<const Entry*>(entries_.data());
  auto* places = reinterpret_cast<std::uint64_t*>(offsets.data());
  order_entries(entries, blocks_, reinterpret_cast<Descriptor*>(out.data() + descriptors), places,
                stream_);
  gather_payloads(entries, blocks_, payloads_.data(), places, out.data() + front, stream_);
  wait_for(stream_);
}

std::size_t compress_on_device(const Choice& choice, std::span<const std::byte> data,
                               std::span<const std::uint64_t> shape, std::span<std::byte> out,
                               cudaStream_t stream, int sms) {
  const DeviceEncoding encoding(choice, data, shape, sms, stream);
  encoding.write(out);
  return encoding.stream_bytes();
}

Layout layout_on_device(std::span<const std::byte> compressed, cudaStream_t stream) {
  const auto header = fetch(compressed.data(), std::min(compressed.size(), sizeof(Header)), stream);
  const std::size_t length = front_length(header, compressed.size());
  return layout_of(fetch(compressed.data(), length, stream), compressed.size());
}

void decompress_on_device(const Layout& layout, std::span<const std::byte> compressed,
                          std::span<std::byte> out, cudaStream_t stream, int sms) {
  require_room(layout, out.size());
  if (out.empty()) return;
  std::vector<Entry> told(layout.blocks.size());
  const std::size_t front = layout.offsets.front();
  for (std::size_t i = 0; i < told.size(); ++i)
    told[i] = {layout.blocks[i], layout.offsets[i] - front};
  const StreamMemory entries(told.size() * sizeof(Entry), stream);
  const StreamMemory faults(sizeof(Fault), stream);
  copy(entries.data(), told.data(), told.size() * sizeof(Entry), stream);
  clear(faults.data(), sizeof(Fault), stream);

  const AlignedInput in(compressed, stream);
  std::optional<StreamMemory> aligned_out;
  if (!is_aligned(out.data())) aligned_out.emplace(out.size(), stream);
  std::byte* values = aligned_out ? aligned_out->data() : out.data();
  auto* fault = reinterpret_cast<Fault*>(faults.data());
  const Header& header = layout.header;
  decode_blocks({header.codec, header.dtype, header.dimensionality},
                reinterpret_cast<const Entry*>(entries.data()), in.data() + front,
                compressed.size() - front, values, out.size(), fault, sms, stream);
  if (aligned_out) copy(out.data(), values, out.size(), stream);
  Fault found{};
  copy(&found, fault, sizeof found, stream);
  wait_for(stream);
  if (found.blocks > 0) refuse(layout, compressed, found.first_block - 1, stream);
}

}  // namespace lanescope::compress
