#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "workload/workload.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Step;
using lanescope::WorkloadReport;

void bind_workload(nb::module_& module) {
  nb::class_<Step>(module, "Step", "A part of a workload, in nanoseconds of CLOCK_REALTIME.")
      .def_ro("name", &Step::name)
      .def_ro("begin_ns", &Step::begin_ns)
      .def_ro("end_ns", &Step::end_ns)
      .def_ro("h2d_bytes", &Step::h2d_bytes, "That the host sends to the device in it.")
      .def_ro("d2h_bytes", &Step::d2h_bytes, "That the device sends to the host in it.")
      .def_prop_ro("bytes", &Step::bytes, "That the host and the device exchange in it.")
      .def_ro("copies", &Step::copies, "By which they do.");

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
  module.def(
      "concurrent_copies",
      [](int down, int up, std::size_t bytes, int repeats, int device) {
        return lanescope::concurrent_copies({device, down, up, bytes, repeats});
      },
      "down"_a, "up"_a, "bytes"_a, "repeats"_a, "device"_a = 0,
      nb::call_guard<nb::gil_scoped_release>(),
      "So many streams of copies there and back, alone and at once.");
  module.def(
      "load_with_copies",
      [](double load, std::size_t bytes, int repeats, int device) {
        return lanescope::load_with_copies({device, load, bytes, repeats});
      },
      "load"_a, "bytes"_a, "repeats"_a, "device"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
      "Copies there and back, a kernel on a share of the SMs, alone and at once.");
  module.def(
      "many_copies",
      [](std::size_t bytes, std::size_t count, double seconds, double rate, int device) {
        return lanescope::many_copies({device, bytes, count, seconds, rate});
      },
      "bytes"_a, "count"_a = 0, "seconds"_a = 1.0, "rate"_a = 0.0, "device"_a = 0,
      nb::call_guard<nb::gil_scoped_release>(),
      "Small copies, each with a short kernel and waited for; so many, or for so long.");
}
