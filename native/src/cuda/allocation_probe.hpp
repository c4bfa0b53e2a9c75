#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// Memory to ask for.
struct AllocationSpec {
  PlaceSpec place;
  std::size_t bytes;
  int device;  ///< Whose driver allocates host memory; other kinds have none.
};

/// Seconds of the stages in the life of one piece of memory.
struct Lifetime {
  double allocate;  ///< The call that asks for it.
  double touch;     ///< One write to each of its pages; 0 for memory of a device.
  double release;   ///< The call that gives it back.
};

/// What it takes to ask for memory, to touch it first, and to give it back.
class AllocationProbe {
 public:
  /// Goes through one cycle that does not count, and looks where its pages are and how large.
  /// The calling thread runs on `cpus` while it works for this probe; empty leaves it alone.
  /// Throws `Error`.
  AllocationProbe(std::shared_ptr<const Topology> topology, AllocationSpec spec,
                  std::vector<int> cpus);
  ~AllocationProbe();
  AllocationProbe(const AllocationProbe&) = delete;
  AllocationProbe& operator=(const AllocationProbe&) = delete;

  /// Allocates, touches and releases so many times. Throws `Error`.
  std::vector<Lifetime> run(int cycles);

 private:
  Lifetime live(bool inspected);
  void* allocate();
  void touch(void* data) const;
  void release(void* data);
  void inspect(const void* data) const;
  void* map();
  void make_pool();
  void end_pool() noexcept;

  std::shared_ptr<const Topology> topology_;
  AllocationSpec spec_;
  std::vector<int> cpus_;
  std::size_t mapped_bytes_;      // of what is mapped and not left to a library
  void* mapping_ = nullptr;       // where that begins
  std::optional<Stream> stream_;  // of the pool's calls
  cudaMemPool_t pool_ = nullptr;  // one of our own: the device's is everybody's
};

}  // namespace lanescope
