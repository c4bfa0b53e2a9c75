#include "compress/nvcomp_blocks.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "compress/nvcomp_chunk.hpp"
#include "error.hpp"

namespace lanescope::compress {

namespace {

using Chunk = NvcompTable::Chunk;

std::size_t slot_bytes(const NvcompCodec& codec) {
  return padded(std::max(sizeof(ChunkFront) + codec.most_chunk_bytes(), kBlockBytes));
}

std::uint64_t number_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// What nvCOMP is given of chunks, one array behind another.
std::vector<std::uint64_t> numbers_of(std::span<const Chunk> chunks) {
  static_assert(sizeof(void*) == sizeof(std::uint64_t));
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  const std::size_t count = chunks.size();
  std::vector<std::uint64_t> numbers(4 * count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = number_of(chunks[i].in);
    numbers[count + i] = chunks[i].in_bytes;
    numbers[2 * count + i] = number_of(chunks[i].out);
    numbers[3 * count + i] = chunks[i].out_room;
  }
  return numbers;
}

bool is_coded(const Entry& entry) {
  return entry.descriptor.mode() == static_cast<std::uint8_t>(BlockMode::coded);
}

std::vector<std::uint32_t> coded_blocks(std::span<const Entry> entries) {
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (is_coded(entries[i])) numbers.push_back(static_cast<std::uint32_t>(i));
  return numbers;
}

/// Where the chunks of blocks lie. Entries are not yet looked at: `check_blocks` does that.
std::vector<Chunk> coded_chunks(std::span<const Entry> entries,
                                const std::vector<std::uint32_t>& coded, const std::byte* payloads,
                                std::span<std::byte> out) {
  std::vector<Chunk> chunks;
  for (const std::uint32_t block : coded) {
    const Entry& entry = entries[block];
    const std::size_t size = std::max(entry.descriptor.payload_bytes(), sizeof(ChunkFront));
    chunks.push_back({payloads + entry.offset + sizeof(ChunkFront), size - sizeof(ChunkFront),
                      out.data() + block * kBlockBytes, bytes_of_block(out.size(), block)});
  }
  return chunks;
}

std::optional<NvcompCodec> codec_for(const Nvcomp* nvcomp, const Choice& choice,
                                     std::span<const Entry> entries) {
  if (std::none_of(entries.begin(), entries.end(), is_coded)) return std::nullopt;
  if (nvcomp == nullptr) Nvcomp::refuse(choice.codec);
  return NvcompCodec(*nvcomp, choice.codec, choice.dtype);
}

std::uint32_t value_bytes_of(const Choice& choice) {
  return static_cast<std::uint32_t>(bytes_of(choice.dtype));
}

std::string block_text(unsigned long long wrong) {
  return "block " + std::to_string(wrong >> 32);
}

}  // namespace

NvcompTable::NvcompTable(std::span<const Chunk> chunks, cudaStream_t stream)
    : count_(chunks.size()),
      on_host_(numbers_of(chunks)),
      inputs_(on_host_.size() * sizeof(std::uint64_t), stream),
      answers_(count_ * sizeof(std::size_t), stream),
      statuses_(count_ * sizeof(int), stream) {
  copy_behind(inputs_.data(), on_host_.data(), on_host_.size() * sizeof(std::uint64_t), stream);
}

NvcompChunks NvcompTable::part(std::size_t first, std::size_t count) const {
  return {count,
          input<const void*>(0) + first,
          input<const std::size_t>(1) + first,
          input<void*>(2) + first,
          input<const std::size_t>(3) + first,
          answers_.as<std::size_t>() + first,
          statuses_.as<int>() + first};
}

std::size_t NvcompEncoder::room_of(const Nvcomp& nvcomp, const Choice& choice, std::size_t bytes) {
  return blocks_of(bytes) * slot_bytes(NvcompCodec(nvcomp, choice.codec, choice.dtype));
}

NvcompEncoder::NvcompEncoder(const Nvcomp& nvcomp, const Choice& choice,
                             std::span<const std::byte> data, const Sink& sink, cudaStream_t stream)
    : codec_(nvcomp, choice.codec, choice.dtype),
      choice_(choice),
      data_(data),
      sink_(sink),
      stream_(stream),
      slot_bytes_(slot_bytes(codec_)),
      table_(chunks(), stream),
      failed_(sizeof(unsigned long long), stream) {}

/// The last block is left out where it has few bytes, or no whole values.
std::vector<Chunk> NvcompEncoder::chunks() const {
  std::vector<Chunk> chunks;
  for (std::size_t block = 0; block < blocks_of(data_.size()); ++block) {
    const std::size_t bytes = bytes_of_block(data_.size(), block);
    if (bytes < kLeastChunkBytes || bytes % bytes_of(choice_.dtype) != 0) break;
    chunks.push_back({data_.data() + block * kBlockBytes, bytes,
                      sink_.payloads + block * slot_bytes_ + sizeof(ChunkFront),
                      slot_bytes_ - sizeof(ChunkFront)});
  }
  return chunks;
}

void NvcompEncoder::encode() const {
  set_behind(failed_.data(), 0xFF, sizeof(unsigned long long), stream_);
  table_.each_part([&](const NvcompChunks& part) { codec_.encode(part, stream_); });
  settle_blocks(
      {data_.data(), data_.size(), value_bytes_of(choice_), table_.out_bytes(), table_.statuses(),
       table_.count(), codec_.version(), choice_.codec, choice_.dtype, sink_.entries,
       sink_.payloads, slot_bytes_, sink_.used, failed_.as<unsigned long long>(), sink_.binding},
      stream_);
}

void NvcompEncoder::require_coded() const {
  unsigned long long failed = kNothingWrong;
  copy_behind(&failed, failed_.data(), sizeof failed, stream_);
  wait_for(stream_);
  if (failed != kNothingWrong)
    throw Error("compress", static_cast<int>(failed & 0xFFFFFFFF), "nvCOMP failed",
                "nvCOMP could not code " + block_text(failed) + ": " +
                    codec_.meaning_of(static_cast<int>(failed & 0xFFFFFFFF)));
}

NvcompDecoder::NvcompDecoder(const Nvcomp* nvcomp, const Choice& choice, const Binding& binding,
                             std::span<const Entry> entries, const std::byte* payloads,
                             std::size_t room, std::span<std::byte> out, cudaStream_t stream)
    : codec_(codec_for(nvcomp, choice, entries)),
      stream_(stream),
      coded_(coded_blocks(entries)),
      entries_(entries.size_bytes(), stream),
      wrong_(sizeof(unsigned long long), stream),
      numbers_(coded_.size() * sizeof(std::uint32_t), stream),
      checking_{entries_.as<Entry>(),
                payloads,
                room,
                choice.codec,
                choice.dtype,
                value_bytes_of(choice),
                out.data(),
                out.size(),
                wrong_.as<unsigned long long>(),
                binding},
      table_(coded_chunks(entries, coded_, payloads, out), stream) {
  copy_behind(entries_.data(), entries.data(), entries.size_bytes(), stream);
  copy_behind(numbers_.data(), coded_.data(), coded_.size() * sizeof(std::uint32_t), stream);
}

std::optional<std::size_t> NvcompDecoder::check() const {
  set_behind(wrong_.data(), 0xFF, sizeof(unsigned long long), stream_);
  check_blocks(checking_, stream_);
  const unsigned long long found = wrong();
  if (found == kNothingWrong) return std::nullopt;
  return found >> 32;
}

void NvcompDecoder::decode() const {
  if (table_.count() == 0) return;
  table_.each_part([&](const NvcompChunks& part) { codec_->decode(part, stream_); });
  check_decoded(checking_, numbers_.as<std::uint32_t>(), table_.count(), table_.out_bytes(),
                table_.statuses(), stream_);
  const unsigned long long found = wrong();
  if (found == kNothingWrong) return;
  const int status = static_cast<int>(found & 0xFFFFFFFF);
  throw Error(
      "decompress", 0, "bad block",
      block_text(found) +
          (status == 0 ? ": its checksum does not fit: it was changed after it was compressed"
                       : ": nvCOMP does not decode it: " + codec_->meaning_of(status)));
}

unsigned long long NvcompDecoder::wrong() const {
  unsigned long long found = kNothingWrong;
  copy_behind(&found, wrong_.data(), sizeof found, stream_);
  wait_for(stream_);
  return found;
}

}  // namespace lanescope::compress
