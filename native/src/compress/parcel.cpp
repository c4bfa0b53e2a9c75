#include <algorithm>
#include <utility>

#include "compress/host_channel.hpp"

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
  if (bytes > 0) range_ = arena_->take(front_bytes() + room_);
}

Parcel::~Parcel() {
  if (range_.bytes == 0) return;
  try {
    arena_->give(range_);
  } catch (const Error&) {  // a range that was never given twice is taken back
  }
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
  return range_.bytes;
}

void Parcel::damage(std::size_t block) {
  stored_bytes();
  if (block < blocks()) entries()[block].descriptor.checksum ^= 1;
}

void Parcel::exchange(std::size_t one, std::size_t other) {
  stored_bytes();
  if (std::max(one, other) < blocks()) std::swap(entries()[one], entries()[other]);
}

void Parcel::shrink(std::size_t used) {
  const std::lock_guard lock(mutex_);
  if (used > room_) return;  // what an encoder never says
  room_ = used;
  range_ = arena_->keep_front(range_, front_bytes() + used);
}

const std::vector<Piece>& Parcel::pieces() {
  const std::lock_guard lock(mutex_);
  if (!pieces_.empty()) return pieces_;
  const std::span<const Entry> found(entries(), blocks());
  const std::size_t slab_blocks = slab_bytes_ / kBlockBytes;
  pieces_ = pieces_of(found, room_, slab_blocks);
  rebase(found, pieces_, slab_blocks, {rebased(), blocks()});
  return pieces_;
}

}  // namespace lanescope::compress
