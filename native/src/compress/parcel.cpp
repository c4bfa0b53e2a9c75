#include "compress/parcel.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace lanescope::compress {

namespace {

constexpr std::size_t kPayloadsAt = 256;  // entries end at a multiple of it

}  // namespace

Parcel::Parcel(std::shared_ptr<PinnedArena> arena, std::size_t bytes, std::size_t slab_bytes,
               const std::optional<Choice>& choice, std::uint64_t number)
    : arena_(std::move(arena)),
      bytes_(bytes),
      slab_bytes_(slab_bytes),
      choice_(choice),
      number_(number),
      room_(padded(bytes)) {
  if (bytes > 0) take(front_bytes() + room_);
}

Parcel::Parcel(std::shared_ptr<PinnedArena> arena, std::size_t slab_bytes, const Layout& layout,
               std::span<const std::byte> front)
    : arena_(std::move(arena)),
      bytes_(layout.header.bytes),
      slab_bytes_(slab_bytes),
      choice_(Choice{layout.header.codec, layout.header.dtype, layout.header.dimensionality,
                     layout.header.version, layout.header.meaning}),
      number_(layout.binding.array),
      room_(layout.header.stored_bytes - front.size()),
      read_front_(front.begin(), front.end()) {
  if (!layout.binding.bound)
    throw Error("load", 0, "bad stream",
                "it has version " + std::to_string(layout.header.version) +
                    ", whose blocks are bound to no place; decompress it");
  if (layout.header.difference() != UpdateKind::none)
    throw Error("load", 0, "bad stream",
                "it is an update, which is put onto a base; decompress it with that");
  if (by_nvcomp(layout.header.codec))
    throw Error("load", 0, "bad stream",
                "it was made by nvCOMP, which channels do not use; "
                "decompress it");
  if (bytes_ == 0) return;
  take(front_bytes() + room_);
  for (std::size_t i = 0; i < layout.blocks.size(); ++i)
    entries()[i] = {layout.blocks[i], layout.offsets[i] - front.size()};
}

void Parcel::take(std::size_t bytes) {
  memory_ = std::make_shared<PinnedRange>(arena_, bytes);
  data_ = memory_->data();
}

std::size_t Parcel::front_bytes() const noexcept {
  return front_bytes(blocks());
}

std::size_t Parcel::front_bytes(std::size_t blocks) noexcept {
  return (2 * blocks * sizeof(Entry) + kPayloadsAt - 1) / kPayloadsAt * kPayloadsAt;
}

std::size_t Parcel::stored_bytes() {
  offload_->wait(patience_s_);
  return choice_ ? offload_->wire_bytes() : bytes_;
}

std::size_t Parcel::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return memory_ ? memory_->bytes() : 0;
}

void Parcel::evict() {
  std::shared_ptr<PinnedRange> given;  // back without the lock
  const std::lock_guard lock(mutex_);
  evicted_ = true;
  given.swap(memory_);
}

bool Parcel::evicted() const {
  const std::lock_guard lock(mutex_);
  return evicted_;
}

std::shared_ptr<PinnedRange> Parcel::memory() const {
  const std::lock_guard lock(mutex_);
  if (evicted_)
    throw Error("parcel", 0, "bad values",
                "the parcel was evicted and holds nothing; load one that was saved, or offload the "
                "array again");
  return memory_;
}

void Parcel::damage(std::size_t block) {
  stored_bytes();
  const auto held = memory();
  if (block < blocks()) entries()[block].descriptor.checksum ^= 1;
}

void Parcel::exchange(std::size_t one, std::size_t other) {
  stored_bytes();
  const auto held = memory();
  if (std::max(one, other) < blocks()) std::swap(entries()[one], entries()[other]);
}

void Parcel::shrink(std::size_t used) {
  const std::lock_guard lock(mutex_);
  if (used > room_) return;  // what an encoder never says
  room_ = used;
  if (memory_) memory_->keep_front(front_bytes() + used);
}

void Parcel::cut_into(std::size_t most_bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_cut_ && !is_update()) slab_bytes_ = std::min(slab_bytes_, most_bytes);
  is_cut_ = true;
}

std::size_t Parcel::slab_bytes() const {
  const std::lock_guard lock(mutex_);
  return slab_bytes_;
}

const std::vector<Piece>& Parcel::pieces(std::size_t most_bytes) {
  const std::lock_guard lock(mutex_);
  if (!pieces_.empty()) return pieces_;
  const std::span<const Entry> found(entries(), blocks());
  const std::size_t least = std::max(slab_bytes_ / kMostCuts, kBlockBytes);
  for (;;) {
    pieces_ = pieces_of(found, room_, slab_bytes_ / kBlockBytes);
    const std::size_t half = slab_bytes_ / 2 / kBlockBytes * kBlockBytes;
    if (is_update() || half < least || largest_of(pieces_) <= most_bytes) break;
    slab_bytes_ = half;
  }
  rebase(found, pieces_, slab_bytes_ / kBlockBytes, {rebased(), blocks()});
  return pieces_;
}

}  // namespace lanescope::compress
