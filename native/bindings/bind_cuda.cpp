#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "lanescope/copy_set.hpp"
#include "lanescope/devices.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::BufferPool;
using lanescope::CopySet;
using lanescope::CopySpec;
using lanescope::PlaceSpec;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

nb::list devices() {
  nb::list list;
  for (const auto& device : lanescope::cuda_devices()) {
    nb::dict entry;
    entry["index"] = device.index;
    entry["name"] = device.name;
    entry["pci_address"] = device.pci_address;
    entry["uuid"] = device.uuid;
    entry["memory_bytes"] = device.memory_bytes;
    entry["compute_major"] = device.compute_major;
    entry["compute_minor"] = device.compute_minor;
    entry["multiprocessors"] = device.multiprocessors;
    entry["async_engines"] = device.async_engines;
    list.append(entry);
  }
  return list;
}

}  // namespace

void bind_cuda(nb::module_& module) {
  module.def("cuda_devices", &devices, nb::sig("def cuda_devices() -> list[dict[str, object]]"),
             "What CUDA says of each device it lets this process use.");

  nb::enum_<lanescope::Memory>(module, "Memory")
      .value("pageable", lanescope::Memory::pageable)
      .value("pinned", lanescope::Memory::pinned)
      .value("device", lanescope::Memory::device);

  nb::class_<PlaceSpec>(module, "PlaceSpec", "A NUMA node's or a device's memory.")
      .def(
          "__init__",
          [](PlaceSpec* self, lanescope::Memory memory, int index) {
            new (self) PlaceSpec{memory, index};
          },
          "memory"_a, "index"_a);
  nb::class_<CopySpec>(module, "CopySpec", "One copy by a device's copy engine.")
      .def(
          "__init__",
          [](CopySpec* self, PlaceSpec source, PlaceSpec destination, std::size_t bytes,
             int device) { new (self) CopySpec{source, destination, bytes, device}; },
          "source"_a, "destination"_a, "bytes"_a, "device"_a);

  nb::class_<BufferPool>(module, "BufferPool", "Keeps buffers between experiments.")
      .def(nb::init<std::shared_ptr<const Topology>>(), "topology"_a);

  nb::class_<CopySet>(module, "CopySet", "Copies by copy engines that run together.")
      .def(nb::init<std::shared_ptr<const Topology>, BufferPool&, std::vector<CopySpec>,
                    std::vector<int>>(),
           "topology"_a, "pool"_a, "copies"_a, "cpus"_a, Release())
      .def("run_gated", &CopySet::run_gated, "windows"_a, "loops"_a, Release(),
           "Boundaries of each copy's windows in seconds since its start.")
      .def("run_on_host_clock", &CopySet::run_on_host_clock, "repetitions"_a, Release(),
           "Seconds from call to completion of the first copy.")
      .def("count_mismatches", &CopySet::count_mismatches, Release(),
           "Number of destination bytes that differ from their source.")
      .def("staged", &CopySet::staged, "copy"_a,
           "Whether a copy between devices goes through host memory.");
}
