#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "compress/range_arena.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Pinned memory of the host, mapped for all devices, in large pieces that are kept: pinning takes
/// about 0.3 s for a GiB. May be used by several threads.
class PinnedArena {
 public:
  /// Grows by so many bytes at a time, or by more where one range needs them.
  explicit PinnedArena(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Throws `Error` where the host has no such memory left.
  Range take(std::size_t bytes);
  void give(const Range& range);
  Range keep_front(const Range& range, std::size_t bytes);

  std::byte* at(const Range& range) const;

  /// Pins as much memory as lets `bytes` bytes be taken in one range. Throws `Error`.
  void prepare(std::size_t bytes);

  /// Gives pieces back to the system of which nothing is taken.
  void trim();

  std::size_t pinned_bytes() const;
  std::size_t taken_bytes() const;

 private:
  void grow(std::size_t bytes);

  mutable std::mutex mutex_;
  std::size_t piece_bytes_;
  RangeArena ranges_;
  std::map<std::size_t, DriverMemory> memory_;
};

}  // namespace lanescope::compress
