#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace lanescope {

/// What a kernel computes for each point of a grid.
enum class GridKernel { state, buoydiff, axpy, convolution };

/// Equations of state for sea water.
enum class EquationOfState { mwjf, jmcd, linear };

/// A kernel and the grid of doubles that it works on; a level is `nx * ny` of them, in a row.
struct GridSpec {
  GridKernel kernel = GridKernel::state;
  EquationOfState equation = EquationOfState::mwjf;
  int nx = 0, ny = 0, nz = 0;
  int outputs = 1;  ///< Of `state`: 1 (density) or 3 (its derivatives, too).

  std::size_t level_values() const noexcept {
    return static_cast<std::size_t>(nx) * static_cast<std::size_t>(ny);
  }
};

/// Where the arrays of a grid lie: all in memory that the kernel can reach.
struct GridArrays {
  const double* in[2] = {};           ///< nz levels each.
  double* out[3] = {};                ///< nz levels each.
  const int* deepest = nullptr;       ///< One for each point of a level: levels with water in them.
  const double* per_level = nullptr;  ///< nz values: pressure in bar (`state`, `buoydiff`).
};

/// How many arrays of nz levels each the kernel reads, and how many it writes.
int grid_inputs(const GridSpec& spec);
int grid_outputs(const GridSpec& spec);

/// Launches the kernel for the levels from `first` on. With `columns`, one thread computes all of
/// these levels of a point; otherwise each point has its own thread, in the order in which they
/// lie in memory. Throws `Error`.
void launch_grid_kernel(const GridSpec& spec, const GridArrays& arrays, int first, int count,
                        bool columns, cudaStream_t stream);

/// Does the same on the host, by so many threads. Throws `Error`.
void run_grid_kernel(const GridSpec& spec, const GridArrays& arrays, int first, int count,
                     int threads);

}  // namespace lanescope
