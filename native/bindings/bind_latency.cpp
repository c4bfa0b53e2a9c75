#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cuda/call_probe.hpp"
#include "cuda/chase.hpp"
#include "cuda/copy_load.hpp"
#include "cuda/host_clock.hpp"
#include "cuda/ping_pong.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BufferPool;
using lanescope::Call;
using lanescope::CallProbe;
using lanescope::ChaseOrder;
using lanescope::ChaseProbe;
using lanescope::CopyLoad;
using lanescope::CopySpec;
using lanescope::PingPong;
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
             std::vector<int> cpus, bool by_bulk) {
            new (self)
                ChaseProbe(std::move(topology), pool,
                           {source, device, {lanescope::one_lap(bytes, stride), order}, by_bulk},
                           std::move(cpus));
          },
          "topology"_a, "pool"_a, "source"_a, "device"_a, "bytes"_a, "order"_a, "stride"_a,
          "cpus"_a, "by_bulk"_a = false, Release())
      .def("run", &ChaseProbe::run, "samples"_a, "hops"_a, Release(),
           "Seconds of one load for each sample, each on the next multiprocessor.")
      .def("count_mismatches", &ChaseProbe::count_mismatches,
           "Number of chases that did not end where the ring says.")
      .def("multiprocessors", &ChaseProbe::multiprocessors)
      .def("multiprocessors_seen", &ChaseProbe::multiprocessors_seen,
           "Number of different multiprocessors that have chased so far.");
}

void bind_calls(nb::module_& module) {
  nb::enum_<Call>(module, "Call")
      .value("launch", Call::launch)
      .value("kernel_sync", Call::kernel_sync)
      .value("kernel_spin", Call::kernel_spin)
      .value("copy_submit", Call::copy_submit)
      .value("copy_sync", Call::copy_sync)
      .value("copy_spin", Call::copy_spin);
  nb::class_<CallProbe>(module, "CallProbe", "What a host thread sees of something small.")
      .def(
          "__init__",
          [](CallProbe* self, SharedTopology topology, BufferPool& pool, Call call,
             PlaceSpec source, PlaceSpec destination, std::size_t bytes, int device,
             std::vector<int> cpus) {
            new (self) CallProbe(std::move(topology), pool,
                                 {call, source, destination, bytes, device}, std::move(cpus));
          },
          "topology"_a, "pool"_a, "call"_a, "source"_a, "destination"_a, "bytes"_a, "device"_a,
          "cpus"_a, Release())
      .def("run", &CallProbe::run, "repetitions"_a, Release(),
           "Seconds by the host's clock, one for each repetition.")
      .def("count_mismatches", &CallProbe::count_mismatches, Release(),
           "Number of bytes of the message that did not arrive.");
}

void bind_ping_pong(nb::module_& module) {
  nb::class_<PingPong>(module, "PingPong", "A counter passed between a CPU and a GPU.")
      .def(nb::init<SharedTopology, BufferPool&, PlaceSpec, int, std::vector<int>>(), "topology"_a,
           "pool"_a, "words"_a, "device"_a, "cpus"_a, Release())
      .def("run", &PingPong::run, "turns"_a, Release(), "Seconds of each round trip.");
}

void bind_load(nb::module_& module) {
  nb::class_<CopyLoad>(module, "CopyLoad", "Copies that keep a path busy.")
      .def(nb::init<SharedTopology, BufferPool&, CopySpec>(), "topology"_a, "pool"_a, "copy"_a,
           Release())
      .def("start", &CopyLoad::start, "copies"_a, Release(),
           "Queues copies and returns when the first has ended and the others run.")
      .def("completed", &CopyLoad::completed, Release(), "Number of copies that have ended.")
      .def("finish", &CopyLoad::finish, Release(), "Waits for all; seconds of each copy.")
      .def("count_mismatches", &CopyLoad::count_mismatches, Release(),
           "Number of destination bytes that differ from their source.");
}

}  // namespace

void bind_latency(nb::module_& module) {
  module.def("host_clock_cost", &lanescope::host_clock_cost,
             "Seconds that one reading of the host's clock takes.");
  bind_chase(module);
  bind_calls(module);
  bind_ping_pong(module);
  bind_load(module);
}
