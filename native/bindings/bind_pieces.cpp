#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cuda/piece_set.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BufferPool;
using lanescope::PieceSet;
using lanescope::PieceSpec;
using lanescope::PlaceSpec;
using lanescope::Submission;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

std::pair<std::vector<double>, std::vector<double>> run_pieces(PieceSet& pieces, int repetitions) {
  auto times = pieces.run(repetitions);
  return {std::move(times.seconds), std::move(times.submit_seconds)};
}

}  // namespace

void bind_pieces(nb::module_& module) {
  nb::enum_<Submission>(module, "Submission")
      .value("single", Submission::single)
      .value("batch", Submission::batch)
      .value("graph", Submission::graph)
      .value("kernel", Submission::kernel)
      .value("mapped", Submission::mapped);

  nb::class_<PieceSpec>(module, "PieceSpec", "Equal pieces between a device and host memory.")
      .def(
          "__init__",
          [](PieceSpec* self, PlaceSpec source, PlaceSpec destination, std::size_t piece_bytes,
             std::size_t pieces, int device, Submission submission) {
            new (self) PieceSpec{source, destination, piece_bytes, pieces, device, submission};
          },
          "source"_a, "destination"_a, "piece_bytes"_a, "pieces"_a, "device"_a, "submission"_a);

  nb::class_<PieceSet>(module, "PieceSet", "Many small copies, handed over in one of several ways.")
      .def(nb::init<std::shared_ptr<const Topology>, BufferPool&, const PieceSpec&,
                    std::vector<int>>(),
           "topology"_a, "pool"_a, "spec"_a, "cpus"_a, Release())
      .def("run", &run_pieces, "repetitions"_a, Release(),
           "Seconds until all pieces have arrived, and until the last call has returned.")
      .def("spoil", &PieceSet::spoil, "in_source"_a, "byte"_a, Release(),
           "Flips one bit of a buffer, for a test of the check.")
      .def("count_mismatches", &PieceSet::count_mismatches, Release(),
           "Number of wrong bytes, gaps included, or of wrong sums where nothing is copied.");
}
