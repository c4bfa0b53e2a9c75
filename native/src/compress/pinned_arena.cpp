#include "compress/pinned_arena.hpp"

#include <algorithm>

namespace lanescope::compress {

void PinnedArena::grow(std::size_t bytes) {
  const std::size_t size = std::max(piece_bytes_, RangeArena::rounded(bytes));
  DriverMemory memory = DriverMemory::host(size, false);
  memory_.emplace(ranges_.add_piece(size), std::move(memory));
}

Range PinnedArena::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto range = ranges_.take(bytes);
  if (!range) {
    grow(bytes);
    range = ranges_.take(bytes);
  }
  return *range;
}

void PinnedArena::give(const Range& range) {
  const std::lock_guard lock(mutex_);
  ranges_.give(range);
}

Range PinnedArena::keep_front(const Range& range, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return ranges_.keep_front(range, bytes);
}

std::byte* PinnedArena::at(const Range& range) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::byte*>(memory_.at(range.piece).data()) + range.begin;
}

void PinnedArena::prepare(std::size_t bytes) {
  give(take(bytes));
}

void PinnedArena::trim() {
  const std::lock_guard lock(mutex_);
  while (const auto dropped = ranges_.drop_free_piece()) memory_.erase(*dropped);
}

std::size_t PinnedArena::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return ranges_.bytes();
}

std::size_t PinnedArena::taken_bytes() const {
  const std::lock_guard lock(mutex_);
  return ranges_.bytes() - ranges_.free_bytes();
}

}  // namespace lanescope::compress
