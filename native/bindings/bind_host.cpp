#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "host/host_team.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::HostCopySpec;
using lanescope::HostTeam;
using lanescope::PlaceSpec;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::vector<std::vector<std::pair<double, double>>> run_team(HostTeam& team, int repetitions,
                                                             double most_seconds) {
  std::vector<std::vector<std::pair<double, double>>> result;
  for (const auto& spans : team.run(repetitions, most_seconds)) {
    auto& pairs = result.emplace_back();
    for (const auto& span : spans) pairs.emplace_back(span.begin, span.end);
  }
  return result;
}

}  // namespace

void bind_host(nb::module_& module) {
  nb::enum_<lanescope::Operation>(module, "Operation")
      .value("copy", lanescope::Operation::copy)
      .value("scale", lanescope::Operation::scale)
      .value("add", lanescope::Operation::add)
      .value("triad", lanescope::Operation::triad);
  module.def("has_streaming_stores", &lanescope::has_streaming_stores,
             "Whether this build and CPU can write past the cache.");

  nb::class_<HostCopySpec>(module, "HostCopySpec", "One copy by pinned host threads.")
      .def(
          "__init__",
          [](HostCopySpec* self, PlaceSpec source, PlaceSpec destination, std::size_t bytes,
             lanescope::Operation operation, std::vector<int> cpus) {
            new (self) HostCopySpec{source, destination, bytes, operation, std::move(cpus)};
          },
          "source"_a, "destination"_a, "bytes"_a, "operation"_a, "cpus"_a);

  nb::class_<HostTeam>(module, "HostTeam", "Threads and arrays for host copies that run together.")
      .def(nb::init<std::shared_ptr<const lanescope::Topology>, lanescope::BufferPool&,
                    std::vector<HostCopySpec>, int>(),
           "topology"_a, "pool"_a, "copies"_a, "device"_a = 0, Release())
      .def("run", &run_team, "repetitions"_a, "most_seconds"_a = 60.0, Release(),
           "Begin and end in seconds of each repetition of each copy.")
      .def("count_mismatches", &HostTeam::count_mismatches, Release(),
           "Number of wrong doubles in the destination arrays.")
      .def(
          "streaming_stores",
          [](const HostTeam& team, std::size_t copy) {
            return team.stores_of(copy) == lanescope::Stores::streaming;
          },
          "copy"_a, "Whether a copy writes past the cache, which was faster on trial.");
}
