#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bindings.hpp"
#include "host/topology.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Topology;

namespace {

using Body = nb::typed<nb::callable, nb::object()>;

}  // namespace

void bind_scope_testing(nb::module_& testing) {
  testing.def(
      "with_memory_policy",
      [](const std::shared_ptr<const Topology>& topology, int node, const Body& body) {
        const lanescope::ScopedMemoryPolicy scope(*topology, node);
        return body();
      },
      "topology"_a, "node"_a, "body"_a,
      "Calls `body` while new pages of this thread come from one node.");
  testing.def(
      "with_binding",
      [](const std::shared_ptr<const Topology>& topology, const std::vector<int>& cpus,
         const Body& body) {
        const lanescope::ScopedBinding scope(*topology, cpus);
        return body();
      },
      "topology"_a, "cpus"_a, "body"_a, "Calls `body` while this thread is bound to CPUs.");
}
