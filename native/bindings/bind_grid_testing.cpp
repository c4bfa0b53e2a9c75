#include <cstring>
#include <memory>

#include "bindings.hpp"
#include "cuda/cuda_handles.hpp"
#include "grid_arrays.hpp"
#include "workload/grid_testing.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::check;
using lanescope::DeviceMemory;
using lanescope::DriverMemory;
using lanescope::EquationOfState;
using lanescope::GridKernel;

namespace {

/// Memory that a kernel reaches: the device's, or the host's, mapped.
class Reached {
 public:
  Reached(int device, bool mapped) : device_(device), mapped_(mapped) {}

  template <typename T>
  T* copy_of(const T* values, std::size_t bytes) {
    if (values == nullptr) return nullptr;
    if (mapped_)
      host_.push_back(DriverMemory::host(bytes, false));
    else
      own_.emplace_back(device_, bytes);
    void* data = mapped_ ? host_.back().data() : own_.back().data();
    check(cudaMemcpy(data, values, bytes, cudaMemcpyDefault), "cudaMemcpy");
    return static_cast<T*>(data);
  }

 private:
  int device_;
  bool mapped_;
  std::vector<DriverMemory> host_;
  std::vector<DeviceMemory> own_;
};

void run_on_gpu(GridKernel kernel, EquationOfState equation, const std::vector<GridInput>& inputs,
                const std::vector<GridOutput>& outputs, const GridLevels& pressure,
                const GridDeepest& deepest, bool columns, int parts, bool mapped, int device) {
  const BoundGrid grid = grid_of(kernel, equation, inputs, outputs, pressure, deepest);
  const nb::gil_scoped_release released;
  const lanescope::ScopedDevice scope(device);
  const auto& spec = grid.spec;
  const std::size_t values = spec.level_values();
  const std::size_t bytes = values * static_cast<std::size_t>(spec.nz) * sizeof(double);
  Reached reached(device, mapped);
  lanescope::GridArrays there;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    there.in[i] = reached.copy_of(grid.arrays.in[i], bytes);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    there.out[i] = reached.copy_of(grid.arrays.out[i], bytes);
  there.deepest = reached.copy_of(grid.arrays.deepest, values * sizeof(int));
  there.per_level =
      reached.copy_of(grid.arrays.per_level, static_cast<std::size_t>(spec.nz) * sizeof(double));
  const lanescope::Stream stream(device);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the stream does not wait for copies
  for (int part = 0; part < parts; ++part) {
    const int first = spec.nz * part / parts, last = spec.nz * (part + 1) / parts;
    lanescope::launch_grid_kernel(spec, there, first, last - first, columns, stream.get());
  }
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  for (std::size_t i = 0; i < outputs.size(); ++i)
    check(cudaMemcpy(grid.arrays.out[i], there.out[i], bytes, cudaMemcpyDefault), "cudaMemcpy");
}

void run_columns(GridKernel kernel, EquationOfState equation, const std::vector<GridInput>& inputs,
                 const std::vector<GridOutput>& outputs, const GridLevels& pressure,
                 const GridDeepest& deepest, int parts) {
  const BoundGrid grid = grid_of(kernel, equation, inputs, outputs, pressure, deepest);
  const nb::gil_scoped_release released;
  for (int part = 0; part < parts; ++part) {
    const int first = grid.spec.nz * part / parts, last = grid.spec.nz * (part + 1) / parts;
    lanescope::run_grid_columns(grid.spec, grid.arrays, first, last - first);
  }
}

}  // namespace

void bind_grid_testing(nb::module_& testing) {
  testing.def("run_grid_columns", &run_columns, "kernel"_a, "equation"_a, "inputs"_a,
              "outputs"_a.noconvert(), "pressure"_a.none() = nb::none(),
              "deepest"_a.none() = nb::none(), "parts"_a = 1,
              "Runs on the host what a GPU's threads do for columns, so many parts of the levels "
              "after each other; no convolution.");
  testing.def("run_grid_kernel_on_gpu", &run_on_gpu, "kernel"_a, "equation"_a, "inputs"_a,
              "outputs"_a.noconvert(), "pressure"_a.none() = nb::none(),
              "deepest"_a.none() = nb::none(), "columns"_a = true, "parts"_a = 1,
              "mapped"_a = false, "device"_a = 0,
              "Copies the arrays there, launches the kernel so many times, each for some of the "
              "levels, and copies the outputs back.");
}
