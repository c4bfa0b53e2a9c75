#include "compress/pinned_arena.hpp"

#include <algorithm>
#include <utility>

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

std::size_t PinnedArena::trim(std::size_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t before = ranges_.bytes();
  while (ranges_.free_bytes() > keep_bytes) {
    const auto dropped = ranges_.drop_free_piece(ranges_.free_bytes() - keep_bytes);
    if (!dropped) break;
    memory_.erase(*dropped);
  }
  return before - ranges_.bytes();
}

std::size_t PinnedArena::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return ranges_.bytes();
}

std::size_t PinnedArena::taken_bytes() const {
  const std::lock_guard lock(mutex_);
  return ranges_.bytes() - ranges_.free_bytes();
}

PinnedRange::PinnedRange(std::shared_ptr<PinnedArena> arena, std::size_t bytes)
    : arena_(std::move(arena)), range_(arena_->take(bytes)), data_(arena_->at(range_)) {}

PinnedRange::~PinnedRange() {
  try {
    arena_->give(range_);
  } catch (const Error&) {  // a range that was never given twice is taken back
  }
}

std::size_t PinnedRange::bytes() const {
  const std::lock_guard lock(mutex_);
  return range_.bytes;
}

void PinnedRange::keep_front(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  range_ = arena_->keep_front(range_, bytes);
}

}  // namespace lanescope::compress
