#include <limits>
#include <string>

#include "bindings.hpp"
#include "error.hpp"
#include "grid_arrays.hpp"
#include "workload/grid_operations.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::EquationOfState;
using lanescope::Error;
using lanescope::GridKernel;
using lanescope::GridOperations;
using lanescope::GridSpec;

namespace {

[[noreturn]] void refuse(const char* name, const std::string& detail) {
  throw Error("grid kernel", 0, name, detail);
}

template <typename Array>
void require_shape(const Array& array, const GridSpec& spec, const char* what) {
  const auto nx = static_cast<std::size_t>(spec.nx), ny = static_cast<std::size_t>(spec.ny),
             nz = static_cast<std::size_t>(spec.nz), last = array.ndim() - 1;
  bool fits = false;
  if (array.ndim() == 3)
    fits = array.shape(0) == nz && array.shape(1) == ny && array.shape(2) == nx;
  else if (array.ndim() == 2)
    fits = array.shape(0) == ny && array.shape(1) == nx;
  else
    fits = array.shape(last) == nz;
  if (!fits)
    refuse("shapes differ", std::string(what) + " does not fit a grid of " + std::to_string(nz) +
                                " levels of " + std::to_string(ny) + " x " + std::to_string(nx));
}

void set_sides(GridSpec& spec, const GridInput& first) {
  int* sides[] = {&spec.nz, &spec.ny, &spec.nx};
  for (std::size_t i = 0; i < 3; ++i) {
    if (first.shape(i) > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      refuse("no grid", "a side of the grid has 2^31 points or more");
    *sides[i] = static_cast<int>(first.shape(i));
  }
}

void run_grid(GridKernel kernel, EquationOfState equation, const std::vector<GridInput>& inputs,
              const std::vector<GridOutput>& outputs, const GridLevels& pressure,
              const GridDeepest& deepest, int first, std::optional<int> count, int threads) {
  const BoundGrid grid = grid_of(kernel, equation, inputs, outputs, pressure, deepest);
  const nb::gil_scoped_release released;
  lanescope::run_grid_kernel(grid.spec, grid.arrays, first,
                             count.value_or(first < 0 ? 0 : grid.spec.nz - first), threads);
}

}  // namespace

BoundGrid grid_of(GridKernel kernel, EquationOfState equation, const std::vector<GridInput>& inputs,
                  const std::vector<GridOutput>& outputs, const GridLevels& per_level,
                  const GridDeepest& deepest) {
  BoundGrid grid;
  grid.spec.kernel = kernel;
  grid.spec.equation = equation;
  grid.spec.outputs = static_cast<int>(outputs.size());
  const auto needed_in = static_cast<std::size_t>(lanescope::grid_inputs(grid.spec));
  const auto needed_out = static_cast<std::size_t>(lanescope::grid_outputs(grid.spec));
  if (inputs.size() != needed_in || outputs.size() != needed_out)
    refuse("number of arrays", "it takes " + std::to_string(needed_in) + " inputs and " +
                                   std::to_string(needed_out) + " outputs, not " +
                                   std::to_string(inputs.size()) + " and " +
                                   std::to_string(outputs.size()));
  set_sides(grid.spec, inputs[0]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_shape(inputs[i], grid.spec, "an input");
    grid.arrays.in[i] = inputs[i].data();
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_shape(outputs[i], grid.spec, "an output");
    grid.arrays.out[i] = outputs[i].data();
  }
  if (per_level) {
    require_shape(*per_level, grid.spec, "the pressure");
    grid.arrays.per_level = per_level->data();
  }
  if (deepest) {
    require_shape(*deepest, grid.spec, "the number of levels with water in them");
    grid.arrays.deepest = deepest->data();
  }
  return grid;
}

void bind_grid(nb::module_& module) {
  nb::enum_<GridKernel>(module, "GridKernel", "What a kernel computes for each point of a grid.")
      .value("state", GridKernel::state)
      .value("buoydiff", GridKernel::buoydiff)
      .value("axpy", GridKernel::axpy)
      .value("convolution", GridKernel::convolution);
  nb::enum_<EquationOfState>(module, "EquationOfState", "Equations of state for sea water.")
      .value("mwjf", EquationOfState::mwjf)
      .value("jmcd", EquationOfState::jmcd)
      .value("linear", EquationOfState::linear);

  nb::class_<GridOperations>(module, "GridOperations", "Operations on doubles for one point.")
      .def_ro("additions", &GridOperations::additions, "Subtractions, too.")
      .def_ro("multiplications", &GridOperations::multiplications)
      .def_ro("divisions", &GridOperations::divisions)
      .def_ro("roots", &GridOperations::roots)
      .def_prop_ro("all", &GridOperations::all, "Of all kinds, each counted as one.");

  module.def(
      "grid_operations",
      [](GridKernel kernel, EquationOfState equation, int outputs) {
        return lanescope::grid_operations({kernel, equation, 1, 1, 1, outputs});
      },
      "kernel"_a, "equation"_a = EquationOfState::mwjf, "outputs"_a = 1,
      "What a kernel does for one point as its source says; comparisons are not counted.");
  module.def("sea_pressure", &lanescope::sea_pressure, "depth"_a,
             "In bar, of sea water at a depth in m.");
  module.def("run_grid_kernel", &run_grid, "kernel"_a, "equation"_a, "inputs"_a,
             "outputs"_a.noconvert(), "pressure"_a.none() = nb::none(),
             "deepest"_a.none() = nb::none(), "first"_a = 0, "count"_a.none() = nb::none(),
             "threads"_a = 1,
             "Runs a kernel on the host for `count` levels from `first` on, all that are left if "
             "that is None. Arrays of a grid have the shape (nz, ny, nx); `pressure` is in bar, "
             "one for each level; `deepest` tells how many levels of a column have water in them.");
}
