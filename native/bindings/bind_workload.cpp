#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "lanescope/workload.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Step;
using lanescope::WorkloadReport;

void bind_workload(nb::module_& module) {
  nb::class_<Step>(module, "Step", "A part of a workload, in nanoseconds of CLOCK_REALTIME.")
      .def_ro("name", &Step::name)
      .def_ro("begin_ns", &Step::begin_ns)
      .def_ro("end_ns", &Step::end_ns)
      .def_ro("bytes", &Step::bytes, "That the host and the device exchange in it.");

  nb::class_<WorkloadReport>(module, "WorkloadReport", "What a workload did.")
      .def_ro("steps", &WorkloadReport::steps)
      .def_ro("wrong", &WorkloadReport::wrong, "Number of wrong results.");

  module.def(
      "vector_add",
      [](std::size_t bytes, bool pinned, int device) {
        return lanescope::vector_add({device, bytes, pinned});
      },
      "bytes"_a, "pinned"_a = false, "device"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
      "Two vectors of so many bytes, copied there, added and copied back.");
  module.def(
      "matmul",
      [](int rows, int inner, int columns, int launches, bool pinned, int device) {
        return lanescope::matmul({device, rows, inner, columns, launches, pinned});
      },
      "rows"_a, "inner"_a, "columns"_a, "launches"_a, "pinned"_a = false, "device"_a = 0,
      nb::call_guard<nb::gil_scoped_release>(),
      "Two matrices, copied there, multiplied so many times, the product copied back.");
}
