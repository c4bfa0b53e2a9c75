#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "cuda/nccl.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::NcclOperations;
using lanescope::NcclRank;
using lanescope::NcclTransfer;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

}  // namespace

void bind_nccl(nb::module_& module) {
  nb::class_<NcclRank>(module, "NcclRank", "A rank of a communicator of NVIDIA's NCCL.")
      .def_static(
          "unique_id",
          [](const std::string& library) {
            const std::string id = NcclRank::unique_id(library);
            return nb::bytes(id.data(), id.size());
          },
          "library"_a, "What all ranks of one communicator have to be given.")
      .def(
          "__init__",
          [](NcclRank* self, const std::string& library, const nb::bytes& id, int ranks, int rank,
             int device) {
            const std::string its_id(id.c_str(), id.size());
            const nb::gil_scoped_release released;
            new (self) NcclRank(library, its_id, ranks, rank, device);
          },
          "library"_a, "id"_a, "ranks"_a, "rank"_a, "device"_a)
      .def_prop_ro("version", &NcclRank::version);
  nb::class_<NcclTransfer>(module, "NcclTransfer", "What one rank sends or receives.")
      .def(nb::init<int, std::size_t, std::uint64_t>(), "peer"_a, "bytes"_a, "seed"_a);
  nb::class_<NcclOperations>(module, "NcclOperations", "What one rank does again and again.")
      .def(
          "__init__",
          [](NcclOperations* self, std::shared_ptr<NcclRank> rank,
             const std::vector<NcclTransfer>& sends, const std::vector<NcclTransfer>& receives,
             std::size_t reduced_bytes) {
            new (self) NcclOperations(std::move(rank), sends, receives, reduced_bytes);
          },
          "rank"_a, "sends"_a, "receives"_a, "reduced_bytes"_a, Release())
      .def("run", &NcclOperations::run, "windows"_a, "loops"_a, Release(),
           "Ends of all windows in seconds since the one before them began.")
      .def("count_mismatches", &NcclOperations::count_mismatches, Release());
}
