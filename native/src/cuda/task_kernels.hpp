#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lanescope {

/// Loads the kernels below onto the current device, as the first launch would. Throws `Error`.
void preload_task_kernels();

/// Launches a kernel that does nothing. Throws `Error`.
void launch_nothing(cudaStream_t stream);

/// Launches a kernel that keeps the whole device busy for about so long. Throws `Error`.
void launch_busy(cudaStream_t stream, std::uint64_t nanoseconds);

inline constexpr int kMostMoved = 3;

/// Arrays of `count` doubles that one thread for each element reads or writes in its turn.
struct Moves {
  const double* in[kMostMoved] = {};
  double* out[kMostMoved] = {};
  int reads = 0, writes = 0;  ///< How many of the arrays are used.
  std::size_t count = 0;
  int work = 0;  ///< Multiplications and additions of each thread, one after the other.
};

/// Launches a kernel that reads and writes as an element-wise kernel does: neighbouring threads
/// reach neighbouring doubles. Throws `Error`.
void launch_moves(cudaStream_t stream, const Moves& moves);

}  // namespace lanescope
