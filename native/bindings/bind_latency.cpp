#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "lanescope/chase.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BufferPool;
using lanescope::ChaseOrder;
using lanescope::ChaseProbe;
using lanescope::PlaceSpec;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using SharedTopology = std::shared_ptr<const Topology>;

void bind_chase(nb::module_& module) {
  nb::enum_<ChaseOrder>(module, "ChaseOrder")
      .value("sequential", ChaseOrder::sequential)
      .value("random", ChaseOrder::random);
  nb::class_<ChaseProbe>(module, "ChaseProbe", "A pointer chase by one thread of a device.")
      .def(
          "__init__",
          [](ChaseProbe* self, SharedTopology topology, BufferPool& pool, PlaceSpec source,
             int device, std::size_t bytes, ChaseOrder order, std::size_t stride,
             std::vector<int> cpus) {
            new (self) ChaseProbe(std::move(topology), pool,
                                  {source, device, {bytes, stride, order}}, std::move(cpus));
          },
          "topology"_a, "pool"_a, "source"_a, "device"_a, "bytes"_a, "order"_a, "stride"_a,
          "cpus"_a, Release())
      .def("run", &ChaseProbe::run, "samples"_a, "hops"_a, Release(),
           "Seconds of one load for each sample, each on the next multiprocessor.")
      .def("count_mismatches", &ChaseProbe::count_mismatches,
           "Number of chases that did not end where the ring says.")
      .def("multiprocessors", &ChaseProbe::multiprocessors)
      .def("multiprocessors_seen", &ChaseProbe::multiprocessors_seen,
           "Number of different multiprocessors that have chased so far.");
}

}  // namespace

void bind_latency(nb::module_& module) {
  bind_chase(module);
}
