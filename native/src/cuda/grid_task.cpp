#include <algorithm>

#include "cuda/task_graph.hpp"
#include "workload/grid_check.hpp"

namespace lanescope {

namespace {

class GridKernelTask : public TaskKernel {
 public:
  GridKernelTask(const TaskMemory& memory, const GridTask& grid)
      : spec_(grid.spec),
        columns_(grid.columns),
        per_level_(memory.device, std::max<std::size_t>(1, grid.per_level.size()) * sizeof(double)),
        deepest_(memory.device, std::max<std::size_t>(1, grid.deepest.size()) * sizeof(int)) {
    require_room(memory, grid);
    const ScopedDevice scope(memory.device);
    upload(per_level_, grid.per_level);
    upload(deepest_, grid.deepest);
    const auto inputs = static_cast<std::size_t>(grid_inputs(spec_));
    const auto outputs = static_cast<std::size_t>(grid_outputs(spec_));
    for (std::size_t i = 0; i < inputs; ++i)
      arrays_.in[i] = static_cast<const double*>(at(memory.in[i], grid.maps_in));
    for (std::size_t i = 0; i < outputs; ++i)
      arrays_.out[i] = static_cast<double*>(at(memory.out[i], grid.maps_out));
    if (!grid.per_level.empty()) arrays_.per_level = static_cast<double*>(per_level_.data());
    if (!grid.deepest.empty()) arrays_.deepest = static_cast<int*>(deepest_.data());
  }

  void require_fitting(const TaskMemory&, const TaskSpec& task) const override {
    check_grid(spec_, arrays_, task.first, task.count);
  }

  void launch(const TaskMemory&, const TaskSpec& task, cudaStream_t stream) override {
    launch_grid_kernel(spec_, arrays_, task.first, task.count, columns_, stream);
  }

 private:
  static void* at(const TaskArray& array, bool maps) {
    return maps ? array.host() : array.device();
  }

  static void require_room(const TaskMemory& memory, const GridTask& grid) {
    check_sides(grid.spec);
    const auto bytes = grid.spec.level_values() * static_cast<std::size_t>(grid.spec.nz) * 8;
    const auto has_room = [&](const std::vector<TaskArray>& arrays, int wanted) {
      return arrays.size() >= static_cast<std::size_t>(wanted) &&
             std::all_of(arrays.begin(), arrays.begin() + wanted,
                         [&](const TaskArray& array) { return array.bytes() >= bytes; });
    };
    if (!has_room(memory.in, grid_inputs(grid.spec)) ||
        !has_room(memory.out, grid_outputs(grid.spec)))
      throw Error("grid_task", 0, "bad memory", "the grid's arrays do not fit into it");
    if (memory.pageable && (grid.maps_in || grid.maps_out))
      throw Error("grid_task", 0, "bad memory", "kernels read and write pinned memory in place");
    if (grid.deepest.size() != 0 && grid.deepest.size() != grid.spec.level_values())
      throw Error("grid_task", 0, "bad grid", "a depth for each point of a level is needed");
    if (grid.per_level.size() != 0 &&
        grid.per_level.size() != static_cast<std::size_t>(grid.spec.nz))
      throw Error("grid_task", 0, "bad grid", "a pressure for each level is needed");
  }

  template <typename Value>
  static void upload(const DeviceMemory& to, const std::vector<Value>& from) {
    if (from.empty()) return;
    check(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(Value), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  GridSpec spec_;
  bool columns_;
  DeviceMemory per_level_, deepest_;
  GridArrays arrays_;
};

}  // namespace

std::unique_ptr<TaskKernel> grid_task(const TaskMemory& memory, const GridTask& grid) {
  return std::make_unique<GridKernelTask>(memory, grid);
}

}  // namespace lanescope
