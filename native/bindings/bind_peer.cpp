#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "compress/peer_channel.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::ChannelOptions;
using lanescope::compress::Choice;
using lanescope::compress::Codec;
using lanescope::compress::Crossing;
using lanescope::compress::Dtype;
using lanescope::compress::PeerReceiver;
using lanescope::compress::PeerSender;
using lanescope::compress::Ticket;

namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

Crossing crossing_of(std::uint64_t number, std::size_t bytes, std::optional<Codec> codec,
                     Dtype dtype, int dimensionality) {
  std::optional<Choice> choice;
  if (codec) choice = Choice{*codec, dtype, dimensionality};
  return {number, bytes, choice};
}

/// What both halves have.
template <typename Half>
nb::class_<Half> bind_half(nb::module_& module, const char* name, const char* doc) {
  return nb::class_<Half>(module, name, doc)
      .def(
          "__init__",
          [](Half* self, int gpu, std::size_t slab_bytes, int slots, int sms, double patience_s) {
            const nb::gil_scoped_release released;
            new (self) Half(gpu, ChannelOptions{slab_bytes, slots, sms, patience_s});
          },
          "gpu"_a, "slab_bytes"_a, "slots"_a, "sms"_a, "patience_s"_a)
      .def_prop_ro("handle",
                   [](const Half& self) {
                     const std::string handle = self.handle();
                     return nb::bytes(handle.data(), handle.size());
                   })
      .def(
          "attach",
          [](Half& self, const nb::bytes& handle) {
            const std::string others(handle.c_str(), handle.size());
            const nb::gil_scoped_release released;
            self.attach(others);
          },
          "handle"_a, "Make the other process's memory usable.")
      .def(
          "load",
          [](Half& self, Codec codec, Dtype dtype) {
            const nb::gil_scoped_release released;
            self.load({codec, dtype, 1});
          },
          "codec"_a, "dtype"_a, "Load a codec's kernels beforehand.")
      .def("detach", &Half::detach, Unlocked(),
           "Wait for what is under way, and let go of the other process's memory.")
      .def("give_up", &Half::give_up, Unlocked(),
           "Let all streams go on that wait for the other process.");
}

}  // namespace

void bind_peer(nb::module_& module) {
  bind_half<PeerSender>(module, "PeerSender", "Arrays to a GPU of another process, compressed.")
      .def(
          "send",
          [](PeerSender& self, std::uintptr_t source, std::uint64_t number, std::size_t bytes,
             std::optional<Codec> codec, Dtype dtype, int dimensionality, std::uintptr_t stream) {
            const auto crossing = crossing_of(number, bytes, codec, dtype, dimensionality);
            const nb::gil_scoped_release released;
            return self.send(reinterpret_cast<const std::byte*>(source), crossing,
                             reinterpret_cast<cudaStream_t>(stream));
          },
          "source"_a, "number"_a, "bytes"_a, "codec"_a.none(), "dtype"_a, "dimensionality"_a,
          "stream"_a, "Send bytes, ordered behind and before a stream.");
  bind_half<PeerReceiver>(module, "PeerReceiver", "Arrays from a GPU of another process.")
      .def(
          "receive",
          [](PeerReceiver& self, std::uintptr_t target, std::uint64_t number, std::size_t bytes,
             std::optional<Codec> codec, Dtype dtype, int dimensionality, std::uintptr_t stream) {
            const auto crossing = crossing_of(number, bytes, codec, dtype, dimensionality);
            const nb::gil_scoped_release released;
            return self.receive(reinterpret_cast<std::byte*>(target), crossing,
                                reinterpret_cast<cudaStream_t>(stream));
          },
          "target"_a, "number"_a, "bytes"_a, "codec"_a.none(), "dtype"_a, "dimensionality"_a,
          "stream"_a, "Receive bytes, ordered behind and before a stream.");
}
