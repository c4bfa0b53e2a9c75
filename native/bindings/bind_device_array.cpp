#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <cstdint>
#include <span>
#include <utility>

#include "bindings.hpp"
#include "compress/device_array.hpp"
#include "compress/device_timing.hpp"
#include "compress_values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::Codec;
using lanescope::compress::DeviceArray;
using lanescope::compress::DeviceTimes;
using lanescope::compress::Dtype;

namespace {

using Released = nb::call_guard<nb::gil_scoped_release>;
using Bytes = LentArray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::pair<std::size_t, std::size_t> compare(const DeviceArray& self, const Bytes& values) {
  const auto bytes = bytes_of(values);
  const nb::gil_scoped_release released;
  const auto found = self.compare(bytes);
  return {found.bytes, found.first};
}

DeviceTimes time_codec(const DeviceArray& values, const DeviceArray& out, Codec codec, Dtype dtype,
                       int dimensionality, int sms, int repeats) {
  if (out.device() != values.device() || out.bytes() != values.bytes())
    throw lanescope::Error("array", 0, "no room",
                           "what is decoded needs as many bytes on the same GPU");
  return lanescope::compress::time_on_device(values.device(), {codec, dtype, dimensionality},
                                             {values.data(), values.bytes()}, sms, repeats,
                                             out.data());
}

}  // namespace

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray",
                          "Values in a GPU's memory that came from the host's.")
      .def(nb::init<int, std::size_t>(), "gpu"_a, "bytes"_a, Released())
      .def_prop_ro("gpu", &DeviceArray::device)
      .def_prop_ro("bytes", &DeviceArray::bytes)
      .def_prop_ro(
          "pointer",
          [](const DeviceArray& self) { return reinterpret_cast<std::uintptr_t>(self.data()); })
      .def("set", &DeviceArray::set, "value"_a, Released(), "Set every byte.")
      .def(
          "fill_from",
          [](DeviceArray& self, const Bytes& values) {
            const auto bytes = bytes_of(values);
            const nb::gil_scoped_release released;
            self.fill_from(bytes);
          },
          "values"_a.noconvert(), "Put bytes there, one after the other until it is full.")
      .def("compare", &compare, "values"_a.noconvert(),
           "How many bytes are other than these one after the other, and the first of them.");
  module.def("time_array_codec", &time_codec, "values"_a, "out"_a, "codec"_a, "dtype"_a,
             "dimensionality"_a = 1, "sms"_a = 0, "repeats"_a = 9, Released(),
             "Time the kernels that encode an array and decode it into another one.");
}
