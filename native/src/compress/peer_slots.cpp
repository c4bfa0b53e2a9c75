#include "compress/peer_slots.hpp"

#include <algorithm>

#include "compress/blocks.hpp"
#include "compress/stream_order.hpp"
#include "cuda/stream_values.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kSlotLine = 256;
/// Behind the words of a slot's blocks: that of all given up, and that of a second chunk.
constexpr std::size_t kWordsBehind = 2;
/// Memory that processes share comes in pages of the GPU: less would share one with other memory.
constexpr std::size_t kSharedPage = std::size_t{2} << 20;

constexpr std::size_t slot_lined(std::size_t bytes) {
  return (bytes + kSlotLine - 1) / kSlotLine * kSlotLine;
}

std::size_t shared_bytes(std::size_t bytes) {
  return (bytes + kSharedPage - 1) / kSharedPage * kSharedPage;
}

}  // namespace

SlotShape::SlotShape(std::size_t slab)
    : slab_bytes(slab),
      blocks(blocks_of(slab)),
      entries_at(slot_lined((blocks + kWordsBehind) * sizeof(unsigned int))),
      payloads_at(entries_at + slot_lined(blocks * sizeof(Entry))),
      bytes(payloads_at + slab) {}

std::vector<RawChunk> chunks_of(const Slab& slab, bool is_last, std::size_t slab_bytes) {
  const bool halved = is_last && slab.bytes > slab_bytes / 4 && blocks_of(slab.bytes) > 1;
  const std::size_t half = (blocks_of(slab.bytes) + 1) / 2 * kBlockBytes;
  std::vector<RawChunk> found;
  for (const Slab& one : cut(slab.bytes, halved ? half : slab.bytes))
    found.push_back({one, one.begin > 0});
  return found;
}

PeerMemory::PeerMemory(int device, std::size_t bytes)
    : memory_(std::in_place_type<SharedMemory>, device, shared_bytes(bytes), Sharing::ipc) {
  zero(device, data(), bytes);
}

PeerMemory::PeerMemory(int device, std::size_t bytes, const std::string& handle)
    : memory_(std::in_place_type<AttachedMemory>, device, shared_bytes(bytes), Sharing::ipc, handle,
              -1) {}

std::string PeerMemory::handle() const {
  return std::get<SharedMemory>(memory_).handle();
}

std::byte* PeerMemory::data() const {
  return static_cast<std::byte*>(std::visit([](const auto& one) { return one.data(); }, memory_));
}

PeerSlots::PeerSlots(const ChannelOptions& options, std::byte* rooms, std::byte* words)
    : shape_(options.slab_bytes),
      rooms_(rooms),
      words_(words),
      marks_(static_cast<std::size_t>(options.slots), 0) {}

PeerSlots::Use PeerSlots::next() {
  const std::size_t slot = uses_++ % marks_.size();
  return {slot, ++marks_[slot]};
}

std::vector<PeerSlots::Use> PeerSlots::last(std::size_t count) const {
  std::vector<Use> found;
  for (std::size_t back = 1; back <= std::min({count, uses_, marks_.size()}); ++back) {
    const std::size_t slot = (uses_ - back) % marks_.size();
    found.push_back({slot, marks_[slot]});
  }
  return found;
}

unsigned int* PeerSlots::stored(std::size_t slot) const {
  return reinterpret_cast<unsigned int*>(rooms_ + slot * shape_.bytes);
}

unsigned int* PeerSlots::stored(std::size_t slot, const RawChunk& chunk) const {
  return stored(slot) + (chunk.second ? shape_.blocks + 1 : 0);
}

Entry* PeerSlots::entries(std::size_t slot) const {
  return reinterpret_cast<Entry*>(rooms_ + slot * shape_.bytes + shape_.entries_at);
}

std::byte* PeerSlots::payloads(std::size_t slot) const {
  return rooms_ + slot * shape_.bytes + shape_.payloads_at;
}

unsigned int* PeerSlots::freed(std::size_t slot) const {
  return reinterpret_cast<unsigned int*>(words_ + slot * kSlotLine);
}

std::size_t PeerSlots::rooms_bytes(const ChannelOptions& options) {
  return SlotShape(options.slab_bytes).bytes * static_cast<std::size_t>(options.slots);
}

std::size_t PeerSlots::words_bytes(const ChannelOptions& options) {
  return kSlotLine * static_cast<std::size_t>(options.slots);
}

Messenger::Messenger(int device, std::size_t slots) : words_(device, slots * kSlotLine) {}

void Messenger::tell(std::size_t slot, unsigned int* there, unsigned int mark,
                     cudaStream_t stream) const {
  auto* here =
      reinterpret_cast<unsigned int*>(static_cast<std::byte*>(words_.data()) + slot * kSlotLine);
  write_value(stream, here, mark);
  check(cudaMemcpyAsync(there, here, sizeof mark, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

}  // namespace lanescope::compress
