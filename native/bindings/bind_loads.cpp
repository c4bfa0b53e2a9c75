#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "host/load_probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BufferPool;
using lanescope::ChaseOrder;
using lanescope::LoadProbe;
using lanescope::PlaceSpec;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

}  // namespace

void bind_loads(nb::module_& module) {
  nb::class_<LoadProbe>(module, "LoadProbe", "Single loads of host memory by one host thread.")
      .def(
          "__init__",
          [](LoadProbe* self, std::shared_ptr<const Topology> topology, BufferPool& pool,
             PlaceSpec source, std::size_t span, std::size_t stride, std::size_t loads,
             std::optional<ChaseOrder> chase, bool flushed, int device, std::vector<int> cpus) {
            new (self) LoadProbe(
                std::move(topology), pool,
                {source, lanescope::places_in(span, stride, loads), chase, flushed, device},
                std::move(cpus));
          },
          "topology"_a, "pool"_a, "source"_a, "span"_a, "stride"_a, "loads"_a, "chase"_a.none(),
          "flushed"_a, "device"_a, "cpus"_a, Release())
      .def("run", &LoadProbe::run, "samples"_a, "loads"_a, Release(),
           "Seconds of so many loads, for each sample; a gather makes whole passes.")
      .def("count_mismatches", &LoadProbe::count_mismatches,
           "Number of samples whose chase did not end where the ring says, or whose sum was wrong.")
      .def("spoil", &LoadProbe::spoil, Release(), "Changes one word, for a test of the check.");
}
