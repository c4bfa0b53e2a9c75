#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/host_array.hpp"
#include "host/block_walk.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// Copies of blocks by one host thread.
struct BlockCopySpec {
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t bytes;       ///< Of one block, 1 or more.
  std::size_t span_bytes;  ///< Of each of the two arrays that the blocks lie in.
  BlockPattern pattern;
  bool flushed;  ///< Whether the blocks of a sample are flushed from the caches before it.
  int cpu;       ///< Where the thread is bound.
};

/// Copies blocks from one array to another with `memcpy`, in the caller's thread.
///
/// A sample is one interval of the clock over `loops` copies: so many that reading the clock
/// takes about 1 % of it. With flushed caches all blocks of a sample are flushed before the
/// interval, so that there are no more of them than the span holds.
class BlockCopier {
 public:
  /// Allocates, fills, warms up and chooses `loops`; `device` pins what is to be pinned.
  /// Throws `Error`.
  BlockCopier(std::shared_ptr<const Topology> topology, BufferPool& pool, BlockCopySpec spec,
              int device);

  /// Seconds of one copy, for each sample.
  std::vector<double> run(int samples);

  /// Copies in a sample.
  std::size_t loops() const noexcept { return loops_; }

  /// Bytes from the start of a block to the start of the next one in memory.
  std::size_t step_bytes() const noexcept { return step_; }

  /// Seconds that reading the clock adds to one copy.
  double clock_seconds() const noexcept { return clock_cost_ / static_cast<double>(loops_); }

  /// Copies the blocks that no copy has come to so far, and none of the others; number of
  /// bytes of the destination that are then wrong: other than the source was filled with, or
  /// changed outside of the blocks. Throws `Error` when memory no longer lies where it was
  /// asked for.
  std::size_t count_mismatches();

  /// Flips one bit of the destination, for a test of the check.
  void spoil(std::size_t byte);

 private:
  void fill();
  void warm_up();
  void choose_loops();
  double sample();
  void flush_next();
  void copy_next(std::size_t loops);
  std::size_t mismatches_in(std::size_t block) const;

  std::shared_ptr<const Topology> topology_;
  BlockCopySpec spec_;
  std::size_t step_;
  std::size_t blocks_;  // that the walk comes to
  BlockWalk walk_;
  HostArray source_, destination_;
  double clock_cost_;
  std::size_t loops_ = 1;
  std::size_t copied_ = 0;  // blocks so far; the first lap comes to each of them once
};

}  // namespace lanescope
