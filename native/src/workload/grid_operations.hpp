#pragma once

#include "workload/grid_kernels.hpp"

namespace lanescope {

/// Operations on doubles that a kernel does for one point.
struct GridOperations {
  int additions = 0, multiplications = 0, divisions = 0, roots = 0;

  int all() const noexcept { return additions + multiplications + divisions + roots; }
};

/// Counts what the source says, on values that count it themselves: a fused multiply-add is two,
/// comparisons are none. Of `buoydiff` for a level below the first, which has none. Throws `Error`.
GridOperations grid_operations(const GridSpec& spec);

/// In bar, of sea water at a depth in m: equation of the ocean models' climatology.
double sea_pressure(double depth);

}  // namespace lanescope
