#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "bindings.hpp"
#include "compress/device_codec.hpp"
#include "compress/device_sample.hpp"
#include "compress/device_timing.hpp"
#include "compress/nvcomp.hpp"
#include "compress_values.hpp"
#include "cuda/cuda_handles.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::ScopedDevice;
using lanescope::compress::Codec;
using lanescope::compress::DeviceEncoding;
using lanescope::compress::DeviceTimes;
using lanescope::compress::Dtype;
using lanescope::compress::Layout;
using lanescope::compress::Meaning;
using lanescope::compress::Nvcomp;

namespace {

using Values = LentArray<nb::ro, nb::c_contig, nb::device::cuda>;
using Room = LentArray<nb::c_contig, nb::device::cuda>;
using Stream = LentArray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cuda>;
using StreamRoom = LentArray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cuda>;

/// A CUDA stream by the number that frameworks tell.
cudaStream_t stream_of(std::uintptr_t number) {
  return reinterpret_cast<cudaStream_t>(number);
}

void require_here(const Values& base, int device, const char* call) {
  if (base.device_id() != device)
    throw lanescope::Error(call, 0, "bad base",
                           "the base lies on GPU " + std::to_string(base.device_id()) +
                               ", and the array on GPU " + std::to_string(device) +
                               "; give one on the same GPU");
}

/// An encoding with the device that it lies on, which is current while it is made, used and freed.
class Encoding {
 public:
  Encoding(const Values& values, std::optional<Codec> codec, std::optional<Dtype> dtype,
           int dimensionality, std::uintptr_t stream, int sms, const Nvcomp* nvcomp,
           std::optional<Meaning> meaning, const std::optional<Values>& base)
      : device_(values.device_id()) {
    const Dtype taken = taken_dtype(values, dtype);
    if (base) require_here(*base, device_, "compress");
    const auto old = base_of(base);
    const nb::gil_scoped_release released;
    const ScopedDevice scope(device_);
    const auto sample = [&](std::span<const std::byte> array) {
      return lanescope::compress::sample_on_device(array, stream_of(stream));
    };
    const auto array = bytes_of(values);
    if (old) lanescope::compress::require_base_of(array.size(), old);
    auto choice = old ? lanescope::compress::smallest_update(codec, taken, dimensionality,
                                                             sample(array), sample(*old))
                      : lanescope::compress::choice_of(codec, taken, dimensionality,
                                                       [&] { return sample(array); });
    choice.meaning = meaning.value_or(Meaning::plain);
    encoding_ = std::make_unique<DeviceEncoding>(choice, array, shape_of(values), sms,
                                                 stream_of(stream), nvcomp, old);
  }
  ~Encoding() {
    try {
      const ScopedDevice scope(device_);
      encoding_.reset();
    } catch (const lanescope::Error&) {  // There is no such device any more.
    }
  }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  std::size_t stream_bytes() const { return encoding_->stream_bytes(); }

  void write(const StreamRoom& out) const {
    if (out.device_id() != device_)
      throw lanescope::Error("compress", 0, "bad values", "the stream's memory is another GPU's");
    const nb::gil_scoped_release released;
    const ScopedDevice scope(device_);
    encoding_->write({reinterpret_cast<std::byte*>(out.data()), out.nbytes()});
  }

 private:
  int device_;
  std::unique_ptr<DeviceEncoding> encoding_;
};

Layout layout(const Stream& compressed, std::uintptr_t stream) {
  const auto bytes = bytes_of(compressed);
  const nb::gil_scoped_release released;
  const ScopedDevice scope(compressed.device_id());
  return lanescope::compress::layout_on_device(bytes, stream_of(stream));
}

void decompress(const Stream& compressed, const Room& out, std::uintptr_t stream, int sms,
                const Nvcomp* nvcomp, const std::optional<Values>& base) {
  if (base) require_here(*base, compressed.device_id(), "decompress");
  const auto old = base_of(base);
  if (out.device_id() != compressed.device_id())
    throw lanescope::Error("decompress", 0, "no room", "the stream lies on another GPU");
  const auto bytes = bytes_of(compressed);
  const nb::gil_scoped_release released;
  const ScopedDevice scope(compressed.device_id());
  const Layout layout = lanescope::compress::layout_on_device(bytes, stream_of(stream));
  lanescope::compress::decompress_on_device(layout, bytes,
                                            {static_cast<std::byte*>(out.data()), out.nbytes()},
                                            stream_of(stream), sms, nvcomp, old);
}

DeviceTimes time_codec(const Values& values, Codec codec, std::optional<Dtype> dtype,
                       int dimensionality, int sms, int repeats,
                       const std::optional<Values>& base) {
  lanescope::compress::Choice choice{codec, taken_dtype(values, dtype), dimensionality};
  if (base) {
    require_here(*base, values.device_id(), "time");
    lanescope::compress::require_base_of(bytes_of(values).size(), base_of(base));
    choice.difference = lanescope::compress::UpdateKind::subtraction;
  }
  const auto old = base_of(base);
  const nb::gil_scoped_release released;
  return lanescope::compress::time_on_device(values.device_id(), choice, bytes_of(values), sms,
                                             repeats, nullptr, old ? old->data() : nullptr);
}

}  // namespace

void bind_device_compress(nb::module_& module) {
  nb::class_<Encoding>(module, "DeviceEncoding",
                       "An array in a GPU's memory, coded there, in the order of a CUDA stream.")
      .def(nb::init<const Values&, std::optional<Codec>, std::optional<Dtype>, int, std::uintptr_t,
                    int, const Nvcomp*, std::optional<Meaning>, const std::optional<Values>&>(),
           "values"_a.noconvert(), "codec"_a.none(), "dtype"_a = nb::none(), "dimensionality"_a = 1,
           "stream"_a = 0, "sms"_a = 0, "nvcomp"_a = nb::none(), "meaning"_a = nb::none(),
           "base"_a.noconvert() = nb::none(),
           nb::sig("def __init__(self, values: object, codec: Codec | None, "
                   "dtype: Dtype | None = None, "
                   "dimensionality: int = 1, stream: int = 0, sms: int = 0, "
                   "nvcomp: Nvcomp | None = None, meaning: Meaning | None = None, "
                   "base: object | None = None) -> None"))
      .def_prop_ro("stream_bytes", &Encoding::stream_bytes)
      .def("write", &Encoding::write, "out"_a.noconvert(),
           nb::sig("def write(self, out: object) -> None"),
           "Put the compressed stream to memory of the same GPU.");
  module.def("device_stream_layout", &layout, "compressed"_a, "stream"_a = 0,
             nb::sig("def device_stream_layout(compressed: object, stream: int = 0) -> "
                     "StreamLayout"),
             "Read and check the header of a compressed stream in a GPU's memory.");
  module.def(
      "decompress_on_device", &decompress, "compressed"_a, "out"_a.noconvert(), "stream"_a = 0,
      "sms"_a = 0, "nvcomp"_a = nb::none(), "base"_a.noconvert() = nb::none(),
      nb::sig("def decompress_on_device(compressed: object, out: object, stream: int = 0, "
              "sms: int = 0, nvcomp: Nvcomp | None = None, base: object | None = None) -> "
              "None"),
      "Decompress a stream in a GPU's memory into an array of as many bytes there, an update "
      "with its base.");
  nb::class_<DeviceTimes>(module, "DeviceTimes", "How long kernels took, in seconds.")
      .def_ro("encode_s", &DeviceTimes::encode_s)
      .def_ro("decode_s", &DeviceTimes::decode_s)
      .def_ro("payload_bytes", &DeviceTimes::payload_bytes);
  module.def("time_device_codec", &time_codec, "values"_a.noconvert(), "codec"_a,
             "dtype"_a = nb::none(), "dimensionality"_a = 1, "sms"_a = 0, "repeats"_a = 9,
             "base"_a.noconvert() = nb::none(),
             nb::sig("def time_device_codec(values: object, codec: Codec, "
                     "dtype: Dtype | None = None, dimensionality: int = 1, sms: int = 0, "
                     "repeats: int = 9, base: object | None = None) -> DeviceTimes"),
             "Time the kernels that encode and decode an array within a GPU's memory, or its "
             "differences to a base.");
}
