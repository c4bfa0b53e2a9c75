#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "bindings.hpp"
#include "host/pages.hpp"
#include "host/topology.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::pair<std::map<int, std::size_t>, std::size_t> pages_at(std::uintptr_t address,
                                                            std::size_t bytes) {
  auto found = lanescope::node_pages(reinterpret_cast<const void*>(address), bytes);
  return {std::move(found.by_node), found.unknown};
}

void require_at(std::uintptr_t address, std::size_t bytes, int node) {
  lanescope::require_on_node(reinterpret_cast<const void*>(address), bytes, node);
}

}  // namespace

void bind_topology(nb::module_& module) {
  nb::class_<lanescope::Topology>(module, "Topology", "This machine's topology, read by hwloc.")
      .def(nb::init<>(), Release())
      .def("xml", &lanescope::Topology::xml, "The whole topology as hwloc XML.");
  module.def(
      "topology_xml", [] { return lanescope::Topology().xml(); },
      "This machine's topology as hwloc XML.");
  module.def("node_pages", &pages_at, "address"_a, "bytes"_a, Release(),
             "Number of pages on each node, and of those that the kernel tells nothing of; "
             "of many pages a sample.");
  module.def("require_on_node", &require_at, "address"_a, "bytes"_a, "node"_a, Release(),
             "Fails when more than a few pages lie on other nodes.");
}
