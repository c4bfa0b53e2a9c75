#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "cuda/copy_set.hpp"
#include "cuda/devices.hpp"
#include "cuda/shared_memory.hpp"
#include "cuda/staged_memory.hpp"
#include "host/block_walk.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::AttachedMemory;
using lanescope::BlockPattern;
using lanescope::BufferPool;
using lanescope::CopySet;
using lanescope::CopySpec;
using lanescope::PlaceSpec;
using lanescope::Route;
using lanescope::SharedMemory;
using lanescope::Sharing;
using lanescope::SmShape;
using lanescope::SmWork;
using lanescope::StagedMemory;
using lanescope::Topology;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

nb::list devices() {
  const auto found = [] {
    const nb::gil_scoped_release released;  // CUDA's first call takes a second, or ten
    return lanescope::cuda_devices();
  }();
  nb::list list;
  for (const auto& device : found) {
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
    entry["memory_gbs"] = device.memory_gbs > 0 ? nb::cast(device.memory_gbs) : nb::none();
    entry["peers"] = device.peers;
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
      .value("write_combined", lanescope::Memory::write_combined)
      .value("mapped", lanescope::Memory::mapped)
      .value("managed", lanescope::Memory::managed)
      .value("huge", lanescope::Memory::huge)
      .value("small_pages", lanescope::Memory::small_pages)
      .value("device", lanescope::Memory::device)
      .value("pool", lanescope::Memory::pool);

  nb::enum_<BlockPattern>(module, "BlockPattern")
      .value("repeated", BlockPattern::repeated)
      .value("ascending", BlockPattern::ascending)
      .value("descending", BlockPattern::descending)
      .value("random", BlockPattern::random);
  nb::enum_<Route>(module, "Route")
      .value("peer", Route::peer)
      .value("uva", Route::uva)
      .value("staged", Route::staged);

  nb::class_<PlaceSpec>(module, "PlaceSpec", "A NUMA node's or a device's memory.")
      .def(
          "__init__",
          [](PlaceSpec* self, lanescope::Memory memory, int index, std::uintptr_t address) {
            new (self) PlaceSpec{memory, index, address};
          },
          "memory"_a, "index"_a, "address"_a = 0);

  nb::enum_<Sharing>(module, "Sharing")
      .value("fabric", Sharing::fabric)
      .value("descriptor", Sharing::descriptor)
      .value("ipc", Sharing::ipc);
  nb::class_<SharedMemory>(module, "SharedMemory", "Memory of a device that others can use.")
      .def(nb::init<int, std::size_t, Sharing>(), "device"_a, "bytes"_a, "sharing"_a, Release())
      .def_prop_ro(
          "address",
          [](const SharedMemory& self) { return reinterpret_cast<std::uintptr_t>(self.data()); })
      .def_prop_ro("size", &SharedMemory::bytes)
      .def_prop_ro("handle",
                   [](const SharedMemory& self) {
                     return nb::bytes(self.handle().data(), self.handle().size());
                   })
      .def_prop_ro("descriptor", &SharedMemory::descriptor);
  nb::class_<AttachedMemory>(module, "AttachedMemory", "Another process' memory of a device.")
      .def(
          "__init__",
          [](AttachedMemory* self, int device, std::size_t bytes, Sharing sharing,
             const nb::bytes& handle, int descriptor) {
            new (self) AttachedMemory(device, bytes, sharing,
                                      std::string(handle.c_str(), handle.size()), descriptor);
          },
          "device"_a, "bytes"_a, "sharing"_a, "handle"_a, "descriptor"_a = -1)
      .def_prop_ro("address", [](const AttachedMemory& self) {
        return reinterpret_cast<std::uintptr_t>(self.data());
      });
  nb::class_<StagedMemory>(module, "StagedMemory",
                           "Arrays of a device, and pinned host memory that two processes share.")
      .def(nb::init<int, int, std::size_t>(), "device"_a, "descriptor"_a, "bytes"_a, Release())
      .def("to_host", &StagedMemory::to_host, "begin"_a, "bytes"_a, Release())
      .def("to_device", &StagedMemory::to_device, "begin"_a, "bytes"_a, Release())
      .def("count_mismatches", &StagedMemory::count_mismatches, "bytes"_a, Release());
  nb::enum_<SmWork>(module, "SmWork")
      .value("copy", SmWork::copy)
      .value("read", SmWork::read)
      .value("write", SmWork::write);
  nb::class_<SmShape>(module, "SmShape", "How a kernel copies.")
      .def(
          "__init__",
          [](SmShape* self, int sms, int chunk_bytes, double pace_gbs, int in_step_with,
             int chunk_repeats, SmWork work) {
            new (self) SmShape{sms, chunk_bytes, pace_gbs, in_step_with, chunk_repeats, work};
          },
          "sms"_a, "chunk_bytes"_a, "pace_gbs"_a, "in_step_with"_a = -1, "chunk_repeats"_a = 1,
          "work"_a = SmWork::copy);
  nb::class_<CopySpec>(module, "CopySpec", "One copy by a device's copy engine or kernel.")
      .def(
          "__init__",
          [](CopySpec* self, PlaceSpec source, PlaceSpec destination, std::size_t bytes, int device,
             std::vector<int> cpus, std::optional<SmShape> sm,
             std::optional<std::size_t> span_bytes, BlockPattern pattern, bool flushed,
             Route route) {
            const std::size_t span = span_bytes.value_or(bytes);
            if (bytes < 1 || span < bytes) throw nb::value_error("a copy is within its span");
            new (self) CopySpec{
                source, destination, bytes, device, std::move(cpus), sm, {span, pattern, flushed},
                route};
          },
          "source"_a, "destination"_a, "bytes"_a, "device"_a, "cpus"_a, "sm"_a.none(),
          "span_bytes"_a = nb::none(), "pattern"_a = BlockPattern::repeated, "flushed"_a = false,
          "route"_a = Route::uva);

  nb::class_<BufferPool>(module, "BufferPool", "Keeps buffers between experiments.")
      .def(nb::init<std::shared_ptr<const Topology>>(), "topology"_a)
      .def("drop_free", &BufferPool::drop_free, Release(),
           "Gives back to the system the buffers that nobody holds.");

  nb::class_<CopySet>(module, "CopySet", "Copies by GPUs that run together.")
      .def(nb::init<std::shared_ptr<const Topology>, BufferPool&, std::vector<CopySpec>>(),
           "topology"_a, "pool"_a, "copies"_a, Release())
      .def("run_gated", &CopySet::run_gated, "windows"_a, "loops"_a,
           "shares"_a = std::vector<int>{}, "queues"_a = std::vector<int>{}, Release(),
           "Boundaries of each copy's windows in seconds since its start.")
      .def("run_on_host_clock", &CopySet::run_on_host_clock, "windows"_a,
           "shares"_a = std::vector<int>{}, Release(),
           "Boundaries of each copy's calls in seconds since a common start.")
      .def("spoil", &CopySet::spoil, "copy"_a, "byte"_a, Release(),
           "Flips one bit of a destination, for a test of the check.")
      .def("count_mismatches", &CopySet::count_mismatches, Release(),
           "Number of destination bytes that differ from their source.")
      .def("staged", &CopySet::staged, "copy"_a,
           "Whether a copy between devices goes through host memory.");
}
