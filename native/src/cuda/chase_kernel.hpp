#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace lanescope {

/// What one chase leaves behind, in memory that its device reaches.
struct ChaseReading {
  std::uint64_t begin_ns, end_ns;  ///< The device's clock around the chain.
  std::uint64_t last;              ///< Address at which the chain ended.
  unsigned multiprocessor;         ///< That it ran on.
};

/// Launches `blocks` blocks of one thread, of which only number `target` works: it starts
/// at the address in `*position`, does `warmup` loads untimed and `hops` timed, and leaves
/// where it ended in `*position`. With a block for each multiprocessor, every one of them
/// has its turn as `target` counts up. `by_bulk` brings each address to shared memory by a bulk
/// copy of 16 bytes, which takes a device that has them. Throws `Error`.
void launch_chase(cudaStream_t stream, unsigned blocks, unsigned target, std::uint64_t* position,
                  int warmup, int hops, ChaseReading* reading, bool by_bulk);

}  // namespace lanescope
