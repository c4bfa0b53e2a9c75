#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "boost/decision.hpp"

namespace lanescope::boost {

/// Why the driver carried a copy. The places are the numbers in tallies, which
/// src/lanescope/boosting/tally.py names.
enum class Reason : std::uint8_t {
  small,
  not_pageable,  // pinned, registered, mapped or managed
  not_to_a_gpu,  // between GPUs, within one, or within the host
  excluded,      // --only
  captured,      // a stream is captured
  context,       // memory, stream or context do not belong together, or are not understood
  old_driver,
  cores,   // too few
  room,    // that can be pinned
  busy,    // another copy of this direction is under way
  memory,  // that cannot be read or written, or not be looked at
  failed,
  forked,
  dry,
  slower,    // than the driver
  compared,  // to know how long the driver takes
};
constexpr std::size_t kReasons = 16;

/// Copies by direction: to GPUs, from them, and where that is not known.
constexpr std::size_t kDirections = 3;
constexpr std::size_t kEitherDirection = 2;

struct Count {
  std::atomic<std::uint64_t> copies, bytes, ns;

  void add(std::uint64_t of_bytes, std::uint64_t of_ns) noexcept {
    copies.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(of_bytes, std::memory_order_relaxed);
    if (of_ns != 0) ns.fetch_add(of_ns, std::memory_order_relaxed);
  }
};

/// What a process has done, in a file that outlives it. All are zero at first.
struct Tally {
  std::atomic<std::uint64_t> magic, process;
  std::array<Count, kDirections> carried;
  /// The carried ones of which is known what the driver takes for such a copy: what they took, and
  /// what the driver would have (ns).
  std::array<Count, kDirections> compared;
  std::array<std::atomic<std::uint64_t>, kDirections> driver_ns;
  std::array<std::array<Count, kDirections>, kReasons> by_driver;
  std::atomic<std::uint64_t> setup_ns, ring_bytes, threads;
  /// Of the slowest GPU's link at best: 10 times its giga-transfers a second, and lanes; 0: not
  /// known. And the threads that would copy.
  std::atomic<std::uint64_t> link_rate, link_lanes, usable_threads;
  /// Copies that were gathered, into how many batches, and what is to be said of that: a number
  /// that src/lanescope/boosting/tally.py names.
  Count gathered;
  std::atomic<std::uint64_t> batches, batching;
};
constexpr std::uint64_t kTallyMagic = 0x31'54'53'4F'4F'42'53'4C;  // "LSBOOST1"

/// @return the tally of this process: a file in `tally_folder`, made when CUDA begins, else memory
/// that nobody reads.
Tally& tally() noexcept;

constexpr std::size_t index_of_direction(Direction direction) {
  return direction == Direction::to_gpu ? 0 : 1;
}

}  // namespace lanescope::boost
