#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cuda/allocation_probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::AllocationProbe;
using lanescope::PlaceSpec;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::vector<std::tuple<double, double, double>> run_probe(AllocationProbe& probe, int cycles) {
  std::vector<std::tuple<double, double, double>> result;
  for (const auto& life : probe.run(cycles))
    result.emplace_back(life.allocate, life.touch, life.release);
  return result;
}

}  // namespace

void bind_allocation(nb::module_& module) {
  nb::class_<AllocationProbe>(module, "AllocationProbe",
                              "Asks for memory, touches it and gives it back.")
      .def(
          "__init__",
          [](AllocationProbe* self, std::shared_ptr<const Topology> topology, PlaceSpec place,
             std::size_t bytes, int device, std::vector<int> cpus) {
            new (self)
                AllocationProbe(std::move(topology), {place, bytes, device}, std::move(cpus));
          },
          "topology"_a, "place"_a, "bytes"_a, "device"_a, "cpus"_a, Release())
      .def("run", &run_probe, "cycles"_a, Release(),
           "Seconds of allocating, touching and releasing, for each cycle.");
}
