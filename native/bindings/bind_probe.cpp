#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "bindings.hpp"
#include "watch/cuda_link.hpp"
#include "watch/link_probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::watch::LinkProbe;
using lanescope::watch::ProbeReport;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

}  // namespace

void bind_probe(nb::module_& module) {
  nb::class_<ProbeReport>(module, "ProbeReport", "What a probe tells when it has stopped.")
      .def_ro("records", &ProbeReport::records)
      .def_ro("rounds", &ProbeReport::rounds)
      .def_ro("cpu_seconds", &ProbeReport::cpu_seconds)
      .def_ro("wall_seconds", &ProbeReport::wall_seconds)
      .def_ro("errors", &ProbeReport::errors);
  nb::class_<LinkProbe>(module, "LinkProbe",
                        "Sends small copies over a GPU's link and writes down how long they take.")
      .def(
          "__init__",
          [](LinkProbe* self, int device, std::size_t chunk_bytes, std::uint64_t period_ns,
             double most_share, std::string path, std::string header) {
            new (self) LinkProbe(device, {chunk_bytes, period_ns, most_share},
                                 {std::move(path), std::move(header)});
          },
          "device"_a, "chunk_bytes"_a, "period_ns"_a, "most_share"_a, "path"_a, "header"_a,
          Release(),
          "Makes everything ready. `period_ns` 0 with a `most_share` of 1 probes without a pause.")
      .def("start", &LinkProbe::start, Release())
      .def("stop", &LinkProbe::stop, Release());
  module.def("require_shared_gpu", &lanescope::watch::require_shared_gpu, "device"_a, Release(),
             "Raises where CUDA cannot use a GPU beside another process; makes no context.");
}
