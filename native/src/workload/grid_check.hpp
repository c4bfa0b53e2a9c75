#pragma once

#include "workload/grid_kernels.hpp"

namespace lanescope {

/// Throws `Error` unless the grid has points, and no more than a kernel can count.
void check_sides(const GridSpec& spec);

/// Throws `Error` unless the kernel can do these levels with these arrays.
void check_grid(const GridSpec& spec, const GridArrays& arrays, int first, int count);

}  // namespace lanescope
