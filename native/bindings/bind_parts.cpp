#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "bindings.hpp"
#include "compress/device_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Error;
using lanescope::ScopedDevice;
using lanescope::compress::Choice;
using lanescope::compress::Codec;
using lanescope::compress::Dtype;
using lanescope::compress::Entry;
using lanescope::compress::Fault;

namespace {

// A part of an array that is coded in memory which others have made, and sent by others: entries of
// its blocks, and payloads behind them, which are not put in order as in a stream.

constexpr std::size_t kLine = 256;

std::size_t payloads_at(std::size_t bytes) {
  const std::size_t entries = lanescope::compress::blocks_of(bytes) * sizeof(Entry);
  return (entries + kLine - 1) / kLine * kLine;
}

std::size_t room_bytes(std::size_t bytes) {
  return payloads_at(bytes) + lanescope::compress::padded(bytes);
}

std::byte* memory(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

void require_aligned(const char* call, std::uintptr_t one, std::uintptr_t other) {
  if (!lanescope::compress::is_aligned(memory(one)) ||
      !lanescope::compress::is_aligned(memory(other)))
    throw Error(call, 0, "bad values", "memory of a GPU's part begins at no multiple of 16 bytes");
}

void encode(int gpu, std::uintptr_t source, std::size_t bytes, const Choice& choice,
            std::uint64_t number, std::uintptr_t room, std::uintptr_t used, std::uintptr_t stream) {
  require_possible(choice);
  require_aligned("encode_part", source, room);
  const ScopedDevice scope(gpu);
  lanescope::compress::Sink sink{reinterpret_cast<Entry*>(room), memory(room) + payloads_at(bytes),
                                 lanescope::compress::padded(bytes),
                                 reinterpret_cast<unsigned long long*>(used)};
  sink.binding = {number, 0};
  encode_blocks(choice, memory(source), bytes, sink, 0, reinterpret_cast<cudaStream_t>(stream));
}

void decode(int gpu, std::uintptr_t part, std::size_t part_bytes, const Choice& choice,
            std::uint64_t number, std::uintptr_t target, std::size_t bytes, std::uintptr_t fault,
            std::uintptr_t stream) {
  require_possible(choice);
  require_aligned("decode_part", part, target);
  const std::size_t front = payloads_at(bytes);
  if (part_bytes < front || part_bytes > room_bytes(bytes))
    throw Error(
        "decode_part", 0, "bad part",
        std::to_string(part_bytes) + " bytes are no part of an array of " + std::to_string(bytes));
  const ScopedDevice scope(gpu);
  decode_blocks(choice, {number, 0}, reinterpret_cast<const Entry*>(part), memory(part) + front,
                part_bytes - front, memory(target), bytes, reinterpret_cast<Fault*>(fault), 0,
                reinterpret_cast<cudaStream_t>(stream));
}

}  // namespace

void bind_parts(nb::module_& module) {
  module.def("part_front_bytes", &payloads_at, "bytes"_a,
             "Bytes of a coded part before its payloads.");
  module.def("part_room_bytes", &room_bytes, "bytes"_a, "The most bytes of a coded part.");
  module.attr("PART_FAULT_BYTES") = sizeof(Fault);
  module.def(
      "part_bytes_used",
      [](unsigned long long used) { return lanescope::compress::bytes_used(used); }, "used"_a,
      "Bytes of all payloads, of what `encode_part` counts.");
  module.def(
      "load_part_codec",
      [](int gpu, Codec codec, Dtype dtype) {
        const nb::gil_scoped_release released;
        const ScopedDevice scope(gpu);
        lanescope::compress::load_kernels({codec, dtype, 1});
      },
      "gpu"_a, "codec"_a, "dtype"_a, "Load the kernels of a codec beforehand.");
  module.def(
      "encode_part",
      [](int gpu, std::uintptr_t source, std::size_t bytes, Codec codec, Dtype dtype,
         int dimensionality, std::uint64_t number, std::uintptr_t room, std::uintptr_t used,
         std::uintptr_t stream) {
        const nb::gil_scoped_release released;
        encode(gpu, source, bytes, {codec, dtype, dimensionality}, number, room, used, stream);
      },
      "gpu"_a, "source"_a, "bytes"_a, "codec"_a, "dtype"_a, "dimensionality"_a, "number"_a,
      "room"_a, "used"_a, "stream"_a,
      "Code an array on a stream into `part_room_bytes`; counts in 8 bytes, which are 0 before.");
  module.def(
      "decode_part",
      [](int gpu, std::uintptr_t part, std::size_t part_bytes, Codec codec, Dtype dtype,
         int dimensionality, std::uint64_t number, std::uintptr_t target, std::size_t bytes,
         std::uintptr_t fault, std::uintptr_t stream) {
        const nb::gil_scoped_release released;
        decode(gpu, part, part_bytes, {codec, dtype, dimensionality}, number, target, bytes, fault,
               stream);
      },
      "gpu"_a, "part"_a, "part_bytes"_a, "codec"_a, "dtype"_a, "dimensionality"_a, "number"_a,
      "target"_a, "bytes"_a, "fault"_a, "stream"_a,
      "Decode it on a stream; what is wrong is said in `PART_FAULT_BYTES`, which are 0 before.");
}
