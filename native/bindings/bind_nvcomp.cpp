#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <span>

#include "bindings.hpp"
#include "compress/device_array.hpp"
#include "compress/device_codec.hpp"
#include "compress/device_timing.hpp"
#include "compress/nvcomp.hpp"
#include "compress_values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::Codec;
using lanescope::compress::DeviceArray;
using lanescope::compress::DeviceTimes;
using lanescope::compress::Dtype;
using lanescope::compress::Meaning;
using lanescope::compress::Nvcomp;

namespace {

using Values = LentArray<nb::ro, nb::c_contig, nb::device::cpu>;
using Room = LentArray<nb::c_contig, nb::device::cpu>;
using Stream = LentArray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using StreamRoom = LentArray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::size_t compress(const Nvcomp& nvcomp, int gpu, const Values& values, const StreamRoom& out,
                     Codec codec, std::optional<Dtype> dtype, std::optional<Meaning> meaning) {
  const Dtype taken = taken_dtype(values, dtype);
  const nb::gil_scoped_release released;
  return lanescope::compress::compress_through_device(
      gpu, {.codec = codec, .dtype = taken, .meaning = meaning.value_or(Meaning::plain)},
      {static_cast<const std::byte*>(values.data()), values.nbytes()}, shape_of(values),
      {reinterpret_cast<std::byte*>(out.data()), out.nbytes()}, nvcomp);
}

void decompress(const Nvcomp& nvcomp, int gpu, const Stream& stream, const Room& out) {
  const nb::gil_scoped_release released;
  lanescope::compress::decompress_through_device(
      gpu, {reinterpret_cast<const std::byte*>(stream.data()), stream.nbytes()},
      {static_cast<std::byte*>(out.data()), out.nbytes()}, nvcomp);
}

DeviceTimes time_codec(const Nvcomp& nvcomp, const DeviceArray& values, const DeviceArray& out,
                       Codec codec, Dtype dtype, int repeats) {
  if (out.device() != values.device() || out.bytes() != values.bytes())
    throw lanescope::Error("array", 0, "no room",
                           "what is decoded needs as many bytes on the same GPU");
  return lanescope::compress::time_nvcomp(values.device(), nvcomp, {codec, dtype, 1},
                                          {values.data(), values.bytes()}, repeats, out.data());
}

}  // namespace

void bind_nvcomp(nb::module_& module) {
  nb::class_<Nvcomp>(module, "Nvcomp", "NVIDIA's nvCOMP, opened where it is installed.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def_prop_ro("version", &Nvcomp::version, "6000 is 6.0.0.")
      .def("compress", &compress, "gpu"_a, "values"_a.noconvert(), "out"_a.noconvert(), "codec"_a,
           "dtype"_a = nb::none(), "meaning"_a = nb::none(),
           nb::sig("def compress(self, gpu: int, values: object, out: object, codec: Codec, "
                   "dtype: Dtype | None = None, meaning: Meaning | None = None) -> int"),
           "Compress an array in the host's memory on a GPU; returns the stream's length.")
      .def("decompress", &decompress, "gpu"_a, "stream"_a, "out"_a.noconvert(),
           nb::sig("def decompress(self, gpu: int, "
                   "stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,))], out: object) "
                   "-> None"),
           "Decompress a stream in the host's memory on a GPU.")
      .def("time_array_codec", &time_codec, "values"_a, "out"_a, "codec"_a, "dtype"_a,
           "repeats"_a = 9, nb::call_guard<nb::gil_scoped_release>(),
           "Time the kernels that encode an array and decode it into another one.");
}
