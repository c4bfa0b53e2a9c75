#pragma once

#include <cstddef>
#include <map>
#include <memory>
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

  /// Gives pieces back to the system of which nothing is taken, as far as `keep_bytes` free bytes
  /// stay; returns how many bytes went.
  std::size_t trim(std::size_t keep_bytes = 0);

  std::size_t pinned_bytes() const;
  std::size_t taken_bytes() const;

 private:
  void grow(std::size_t bytes);

  mutable std::mutex mutex_;
  std::size_t piece_bytes_;
  RangeArena ranges_;
  std::map<std::size_t, DriverMemory> memory_;
};

/// A range of an arena, which lives as long as this and goes back with it; owner.
class PinnedRange {
 public:
  /// Throws `Error`.
  PinnedRange(std::shared_ptr<PinnedArena> arena, std::size_t bytes);
  ~PinnedRange();
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const;

  /// Gives back what lies behind the first `bytes` bytes.
  void keep_front(std::size_t bytes);

 private:
  std::shared_ptr<PinnedArena> arena_;
  mutable std::mutex mutex_;
  Range range_;
  std::byte* data_;
};

}  // namespace lanescope::compress
