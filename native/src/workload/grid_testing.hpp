#pragma once

#include "workload/grid_kernels.hpp"

namespace lanescope {

/// Runs on the host, in one thread, what a GPU's thread does for a column of levels; nothing for
/// the convolution, whose blocks have no such part. Throws `Error`.
void run_grid_columns(const GridSpec& spec, const GridArrays& arrays, int first, int count);

}  // namespace lanescope
