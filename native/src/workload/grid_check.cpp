#include "workload/grid_check.hpp"

#include <limits>
#include <string>

#include "error.hpp"

namespace lanescope {

namespace {

/// Blocks of a launch, in the direction in which the levels lie.
constexpr int kMostLevels = 65535;

[[noreturn]] void refuse(const GridSpec& spec, const char* name, const std::string& detail) {
  constexpr const char* kNames[] = {"state", "buoydiff", "axpy", "convolution"};
  throw Error(kNames[static_cast<int>(spec.kernel)], 0, name, detail);
}

void check_arrays(const GridSpec& spec, const GridArrays& arrays) {
  const int inputs = grid_inputs(spec), outputs = grid_outputs(spec);
  for (int i = 0; i < inputs; ++i)
    if (arrays.in[i] == nullptr) refuse(spec, "array missing", "an input is missing");
  for (int o = 0; o < outputs; ++o) {
    if (arrays.out[o] == nullptr) refuse(spec, "array missing", "an output is missing");
    for (int i = 0; i < inputs; ++i)
      if (arrays.out[o] == arrays.in[i])
        refuse(spec, "arrays overlap", "an output is an input, too; give it memory of its own");
    for (int other = 0; other < o; ++other)
      if (arrays.out[o] == arrays.out[other])
        refuse(spec, "arrays overlap", "two outputs are the same memory");
  }
  const bool state = spec.kernel == GridKernel::state, buoy = spec.kernel == GridKernel::buoydiff;
  if ((state || buoy) && arrays.per_level == nullptr)
    refuse(spec, "array missing", "the pressure of the levels is missing");
  if ((buoy || (state && spec.equation == EquationOfState::jmcd)) && arrays.deepest == nullptr)
    refuse(spec, "array missing", "the number of levels with water in them is missing");
}

}  // namespace

void check_sides(const GridSpec& spec) {
  if (spec.nx < 1 || spec.ny < 1 || spec.nz < 1 || spec.nz > kMostLevels)
    refuse(spec, "no grid",
           "a grid has 1 point or more on each side and at most " + std::to_string(kMostLevels) +
               " levels, not " + std::to_string(spec.nx) + " x " + std::to_string(spec.ny) + " x " +
               std::to_string(spec.nz));
  if (spec.level_values() > std::numeric_limits<int>::max())
    refuse(spec, "level too large", "a level has fewer than 2^31 points");
}

int grid_inputs(const GridSpec& spec) {
  return spec.kernel == GridKernel::convolution ? 1 : 2;
}

int grid_outputs(const GridSpec& spec) {
  if (spec.kernel == GridKernel::buoydiff) return 2;
  if (spec.kernel != GridKernel::state) return 1;
  if (spec.outputs != 1 && spec.outputs != 3)
    refuse(spec, "outputs",
           "it has 1 output or 3, with the derivatives, not " + std::to_string(spec.outputs));
  return spec.outputs;
}

void check_grid(const GridSpec& spec, const GridArrays& arrays, int first, int count) {
  check_sides(spec);
  check_arrays(spec, arrays);
  if (first < 0 || count < 1 || first >= spec.nz || count > spec.nz - first)
    refuse(spec, "no such levels",
           std::to_string(count) + " levels from " + std::to_string(first) + " on are not among " +
               std::to_string(spec.nz));
}

}  // namespace lanescope
