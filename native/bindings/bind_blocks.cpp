#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "bindings.hpp"
#include "host/block_copier.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BlockCopier;
using lanescope::BlockCopySpec;
using lanescope::BlockPattern;
using lanescope::BufferPool;
using lanescope::PlaceSpec;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using SharedTopology = std::shared_ptr<const lanescope::Topology>;

}  // namespace

void bind_blocks(nb::module_& module) {
  nb::class_<BlockCopier>(module, "BlockCopier", "Copies of blocks by one bound host thread.")
      .def(
          "__init__",
          [](BlockCopier* self, SharedTopology topology, BufferPool& pool, PlaceSpec source,
             PlaceSpec destination, std::size_t bytes, std::size_t span_bytes, BlockPattern pattern,
             bool flushed, int cpu, int device) {
            const BlockCopySpec spec{source, destination, bytes, span_bytes, pattern, flushed, cpu};
            new (self) BlockCopier(std::move(topology), pool, spec, device);
          },
          "topology"_a, "pool"_a, "source"_a, "destination"_a, "bytes"_a, "span_bytes"_a,
          "pattern"_a, "flushed"_a, "cpu"_a, "device"_a = 0, Release())
      .def("run", &BlockCopier::run, "samples"_a, Release(),
           "Seconds of one copy, for each sample.")
      .def("loops", &BlockCopier::loops, "Copies in a sample.")
      .def("step_bytes", &BlockCopier::step_bytes, "Bytes from one block to the next in memory.")
      .def("clock_seconds", &BlockCopier::clock_seconds,
           "Seconds that reading the clock adds to one copy.")
      .def("spoil", &BlockCopier::spoil, "byte"_a,
           "Flips one bit of the source, for a test of the check.")
      .def("count_mismatches", &BlockCopier::count_mismatches, Release(),
           "Number of wrong bytes of the destination after one more copy of each block.");
}
