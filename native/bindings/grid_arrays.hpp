#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "lent_array.hpp"
#include "workload/grid_kernels.hpp"

/// What Python gives of a grid: arrays that are used where they lie.
using GridInput =
    LentArray<const double, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;
using GridOutput = LentArray<double, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;
using GridLevels = std::optional<
    LentArray<const double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>>;
using GridDeepest = std::optional<
    LentArray<const int, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>>;

struct BoundGrid {
  lanescope::GridSpec spec;
  lanescope::GridArrays arrays;
};

/// The shape of the first input is that of the grid; as many outputs as there are arrays. Throws
/// `Error` where another array has another shape, or where there are too many or too few.
BoundGrid grid_of(lanescope::GridKernel kernel, lanescope::EquationOfState equation,
                  const std::vector<GridInput>& inputs, const std::vector<GridOutput>& outputs,
                  const GridLevels& per_level, const GridDeepest& deepest);
