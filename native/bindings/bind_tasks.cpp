#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cuda/task_graph.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::EquationOfState;
using lanescope::GridKernel;
using lanescope::GridSpec;
using lanescope::GridTask;
using lanescope::TaskArray;
using lanescope::TaskGraph;
using lanescope::TaskKernel;
using lanescope::TaskKind;
using lanescope::TaskMemory;
using lanescope::TaskSpec;
using lanescope::TaskTimes;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Memory = std::shared_ptr<TaskMemory>;
using Cpus = std::vector<int>;

/// The host's side of an array; it lives as long as the memory that holds it.
nb::ndarray<nb::numpy, double, nb::ndim<1>> doubles(const std::vector<TaskArray>& arrays,
                                                    std::size_t index, nb::handle owner) {
  if (index >= arrays.size()) throw nb::index_error("there are not so many arrays");
  return {arrays[index].host(), {arrays[index].bytes() / sizeof(double)}, owner};
}

/// Makes a graph whose kernels do what `kernel` says.
std::unique_ptr<TaskGraph> graph(std::shared_ptr<const Topology> topology, Memory memory,
                                 std::vector<TaskSpec> tasks, std::unique_ptr<TaskKernel> kernel,
                                 Cpus cpus) {
  return std::make_unique<TaskGraph>(std::move(topology), std::move(memory), std::move(tasks),
                                     std::move(kernel), std::move(cpus));
}

}  // namespace

void bind_tasks(nb::module_& module) {
  nb::enum_<TaskKind>(module, "TaskKind", "What keeps which part of the machine busy.")
      .value("h2d", TaskKind::h2d)
      .value("d2h", TaskKind::d2h)
      .value("kernel", TaskKind::kernel);

  nb::class_<TaskSpec>(module, "TaskSpec", "A copy of a part of an array, or a kernel.")
      .def(
          "__init__",
          [](TaskSpec* self, TaskKind kind, int stream, int array, std::size_t offset,
             std::size_t bytes, int first, int count, std::vector<int> after) {
            new (self) TaskSpec{kind, stream, array, offset, bytes, first, count, std::move(after)};
          },
          "kind"_a, "stream"_a = 0, "array"_a = 0, "offset"_a = 0, "bytes"_a = 0, "first"_a = 0,
          "count"_a = 0, "after"_a = std::vector<int>())
      .def_ro("kind", &TaskSpec::kind)
      .def_ro("stream", &TaskSpec::stream)
      .def_ro("array", &TaskSpec::array)
      .def_ro("offset", &TaskSpec::offset)
      .def_ro("bytes", &TaskSpec::bytes)
      .def_ro("first", &TaskSpec::first)
      .def_ro("count", &TaskSpec::count)
      .def_ro("after", &TaskSpec::after);

  nb::class_<TaskMemory>(module, "TaskMemory",
                         "Arrays that go to a device and arrays that come back.")
      .def(nb::init<const Topology&, int, const std::vector<std::size_t>&,
                    const std::vector<std::size_t>&, bool, const Cpus&>(),
           "topology"_a, "device"_a, "in_bytes"_a, "out_bytes"_a, "pageable"_a = false,
           "cpus"_a = Cpus(), Release())
      .def(
          "host_in",
          [](nb::handle_t<TaskMemory> self, std::size_t index) {
            return doubles(nb::cast<TaskMemory&>(self).in, index, self);
          },
          "index"_a, "The host's doubles of an array that goes to the device.")
      .def(
          "host_out",
          [](nb::handle_t<TaskMemory> self, std::size_t index) {
            return doubles(nb::cast<TaskMemory&>(self).out, index, self);
          },
          "index"_a, "The host's doubles of an array that comes back.");

  nb::class_<TaskTimes>(module, "TaskTimes", "Of one run, by the host's clock.")
      .def_ro("call_seconds", &TaskTimes::call_seconds, "Until the last call had returned.")
      .def_ro("seconds", &TaskTimes::seconds, "Until the host had seen the end of all.");

  nb::class_<TaskGraph>(module, "TaskGraph",
                        "Copies and kernels with what they wait for, handed over by one thread.")
      .def("run", &TaskGraph::run, "repetitions"_a, "warm"_a = true, Release(),
           "Times of so many runs, after one that does not count if `warm`.")
      .def("run_held", &TaskGraph::run_held, "repetitions"_a, Release(),
           "Seconds that the device takes once all is handed over.");

  module.def(
      "busy_graph",
      [](std::shared_ptr<const Topology> topology, Memory memory, std::vector<TaskSpec> tasks,
         std::uint64_t nanoseconds, Cpus cpus) {
        return graph(std::move(topology), std::move(memory), std::move(tasks),
                     lanescope::busy_task(nanoseconds), std::move(cpus));
      },
      "topology"_a, "memory"_a, "tasks"_a, "nanoseconds"_a = 0, "cpus"_a = Cpus(), Release(),
      "A graph whose kernels keep the device busy for so long; for 0 they do nothing.");
  module.def(
      "moving_graph",
      [](std::shared_ptr<const Topology> topology, Memory memory, std::vector<TaskSpec> tasks,
         int reads, int writes, bool reads_copies, int work, Cpus cpus) {
        return graph(std::move(topology), std::move(memory), std::move(tasks),
                     lanescope::moving_task(reads, writes, reads_copies, work), std::move(cpus));
      },
      "topology"_a, "memory"_a, "tasks"_a, "reads"_a, "writes"_a, "reads_copies"_a = false,
      "work"_a = 0, "cpus"_a = Cpus(), Release(),
      "A graph whose kernels read so many arrays of the host's memory in place, or the copies of "
      "them, and write so many in place, `count` doubles each; `work` steps of computing for "
      "each.");

  module.def(
      "grid_graph",
      [](std::shared_ptr<const Topology> topology, Memory memory, std::vector<TaskSpec> tasks,
         GridKernel kernel, EquationOfState equation, int nx, int ny, int nz, int outputs,
         std::vector<double> pressure, std::vector<int> deepest, bool maps_in, bool maps_out,
         bool columns, Cpus cpus) {
        auto task = lanescope::grid_task(*memory, {{kernel, equation, nx, ny, nz, outputs},
                                                   maps_in,
                                                   maps_out,
                                                   columns,
                                                   std::move(pressure),
                                                   std::move(deepest)});
        return graph(std::move(topology), std::move(memory), std::move(tasks), std::move(task),
                     std::move(cpus));
      },
      "topology"_a, "memory"_a, "tasks"_a, "kernel"_a, "equation"_a, "nx"_a, "ny"_a, "nz"_a,
      "outputs"_a, "pressure"_a, "deepest"_a, "maps_in"_a, "maps_out"_a, "columns"_a,
      "cpus"_a = Cpus(), Release(),
      "A graph whose kernels compute a grid's levels; what is mapped they read or write in the "
      "host's memory. With `columns` a thread computes all levels of a point.");
}
