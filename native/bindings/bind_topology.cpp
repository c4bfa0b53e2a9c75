#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "bindings.hpp"
#include "lanescope/topology.hpp"

namespace nb = nanobind;

void bind_topology(nb::module_& module) {
  nb::class_<lanescope::Topology>(module, "Topology", "This machine's topology, read by hwloc.")
      .def(nb::init<>())
      .def("xml", &lanescope::Topology::xml, "The whole topology as hwloc XML.");
  module.def(
      "topology_xml", [] { return lanescope::Topology().xml(); },
      "This machine's topology as hwloc XML.");
}
