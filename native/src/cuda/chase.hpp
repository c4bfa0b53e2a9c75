#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "chase_ring.hpp"
#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// A pointer chase: one thread of `device` follows a ring of pointers at `source`.
struct ChaseSpec {
  PlaceSpec source;
  int device;
  RingSpec ring;
  bool by_bulk = false;  ///< By bulk copies to shared memory, not by loads.
};

/// The delay of one load, measured by a chain of loads that each need the one before.
class ChaseProbe {
 public:
  /// Takes a buffer from the pool and writes the ring. The calling thread runs on `cpus`
  /// while it works for this probe; empty leaves it alone. Throws `Error`, with the name
  /// "no peer access" when the device cannot reach the source.
  ChaseProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, ChaseSpec spec,
             std::vector<int> cpus);

  /// Chases `hops` loads long, `samples` times, each time on the next multiprocessor and
  /// from where the last chase ended. Result: seconds of one load, one for each sample.
  std::vector<double> run(int samples, int hops);

  /// Number of chases that did not end where the ring says.
  std::size_t count_mismatches() const noexcept { return mismatches_; }

  int multiprocessors() const noexcept { return multiprocessors_; }

  /// Number of different multiprocessors that have chased so far.
  std::size_t multiprocessors_seen() const noexcept { return seen_.size(); }

 private:
  void write() const;
  void run_batch(std::size_t count, int hops, std::vector<double>& seconds);

  std::shared_ptr<const Topology> topology_;
  std::vector<int> cpus_;
  ChaseSpec spec_;
  std::vector<std::uint32_t> visits_;
  std::shared_ptr<Buffer> buffer_;
  Stream stream_;
  DeviceMemory position_;  // the address at which the next chase begins
  DriverMemory readings_;  // where the kernels leave what they read
  int multiprocessors_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t hops_ = 0;  // since the ring was written
  std::size_t mismatches_ = 0;
  std::set<unsigned> seen_;
};

}  // namespace lanescope
