#pragma once

#include "lanescope/grid_kernels.hpp"

namespace lanescope {

/// Throws `Error` unless the kernel can do these levels with these arrays.
void check_grid(const GridSpec& spec, const GridArrays& arrays, int first, int count);

}  // namespace lanescope
