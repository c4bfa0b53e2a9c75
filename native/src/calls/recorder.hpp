#pragma once

#include <atomic>
#include <cstdint>

#include "calls/ring.hpp"
#include "watch/ticks.hpp"

namespace lanescope::calls {

/// What every recorded call reads, in one cache line: whatever a program does between two copies
/// leaves little of it in the nearest caches, and each line more makes a call some ns longer.
struct alignas(64) Recording {
  Ring ring;
  std::atomic<std::uint32_t> place_changes{0};  ///< how often host memory was pinned or unpinned
  std::atomic<bool> has_ring{false};            ///< else there is none, or it is not made yet
  std::atomic<bool> has_ticks{false};           ///< `now` is known to be `ticks`
  /// So far apart, by `now`, small copies are close; 0: all are recorded.
  std::uint32_t close{0};
};
static_assert(sizeof(Recording) == 64);
extern constinit Recording recording;

/// @return whether this process is to record its copies: LANESCOPE_CALLS_FOLDER names a folder.
bool is_wanted() noexcept;

/// What `ring` does where there is none yet: make it, at the first time.
Ring* first_ring() noexcept;

/// What `now` does where it is not known yet by which clock.
std::uint64_t first_now() noexcept;

/// @return the ring, made when CUDA begins, else when it is first requested; null where nothing is
/// recorded: there is no room, or the process is a child of one that records, whose ring is not its
/// own.
inline Ring* ring() noexcept {
  return recording.has_ring.load(std::memory_order_acquire) ? &recording.ring : first_ring();
}

/// @return now, for `Ring::add`.
inline std::uint64_t now() noexcept {
  return recording.has_ticks.load(std::memory_order_relaxed) ? watch::ticks() : first_now();
}

}  // namespace lanescope::calls
