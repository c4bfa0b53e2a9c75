#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "bindings.hpp"
#include "compress/candidates.hpp"
#include "compress/choosing.hpp"
#include "compress_values.hpp"
#include "error.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Error;
using lanescope::compress::BlockMode;
using lanescope::compress::Choice;
using lanescope::compress::Codec;
using lanescope::compress::Dtype;
using lanescope::compress::kMeanings;
using lanescope::compress::Layout;
using lanescope::compress::Meaning;
using lanescope::compress::UpdateKind;
using lanescope::compression::kCodecs;
using lanescope::compression::kDtypes;

namespace {

using Values = LentArray<nb::ro, nb::c_contig, nb::device::cpu>;
using Room = LentArray<nb::c_contig, nb::device::cpu>;
using Stream = LentArray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using StreamRoom = LentArray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NewStream = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

/// Compresses into so much memory, without the interpreter's lock; returns the stream's length.
std::size_t compress_into(const Values& values, std::optional<Codec> codec,
                          std::optional<Dtype> dtype, int dimensionality, int threads,
                          std::optional<Meaning> meaning, const std::optional<Values>& base,
                          std::span<std::byte> out) {
  const Dtype taken = taken_dtype(values, dtype);
  const auto array = bytes_of(values);
  const auto old = base_of(base);
  const nb::gil_scoped_release released;
  using lanescope::compress::sample_on_host;
  Choice choice;
  if (old) {
    lanescope::compress::require_base_of(array.size(), old);
    choice = lanescope::compress::smallest_update(codec, taken, dimensionality,
                                                  sample_on_host(array), sample_on_host(*old));
  } else {
    choice = lanescope::compress::choice_of(codec, taken, dimensionality,
                                            [&] { return sample_on_host(array); });
  }
  choice.meaning = meaning.value_or(Meaning::plain);
  return lanescope::compress::compress_on_host(choice, array, shape_of(values), out, threads, old);
}

NewStream compress(const Values& values, std::optional<Codec> codec, std::optional<Dtype> dtype,
                   int dimensionality, int threads, std::optional<Meaning> meaning,
                   const std::optional<Values>& base) {
  const std::size_t most =
      lanescope::compress::most_stream_bytes(values.nbytes(), values.ndim() + (base ? 1 : 0));
  std::unique_ptr<void, void (*)(void*)> owner(std::malloc(most), std::free);
  if (owner == nullptr)
    throw Error("compress", ENOMEM, "no memory", "there is no memory for the stream");
  const std::size_t used = compress_into(values, codec, dtype, dimensionality, threads, meaning,
                                         base, {static_cast<std::byte*>(owner.get()), most});
  if (void* less = std::realloc(owner.get(), used)) {
    owner.release();
    owner.reset(less);
  }
  void* kept = owner.get();
  nb::capsule capsule(owner.release(), [](void* at) noexcept { std::free(at); });
  return NewStream(static_cast<std::uint8_t*>(kept), {used}, capsule);
}

void decompress(const Stream& stream, const Room& out, int threads,
                const std::optional<Values>& base) {
  const auto bytes = bytes_of(stream);
  const auto old = base_of(base);
  const nb::gil_scoped_release released;
  const Layout layout = lanescope::compress::layout_of(bytes);
  lanescope::compress::decompress_on_host(
      layout, bytes, {static_cast<std::byte*>(out.data()), out.nbytes()}, threads, old);
}

using View = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;

std::tuple<View, Dtype, std::size_t> bytes_view(nb::handle values) {
  // The view keeps this import of the array alive, and with it the memory: what exports it may
  // make a copy for each import, or move its memory once nobody uses it.
  auto array = std::make_unique<Values>();
  if (!nb::try_cast(values, *array, false)) throw nb::type_error("no array in the host's memory");
  const auto dtype = dtype_of(array->dtype());
  if (!dtype)
    throw Error("compress", 0, "bad values", "values of this type are none that can be compressed");
  const auto* data = static_cast<const std::uint8_t*>(array->data());
  const std::size_t size = array->nbytes(), each = array->itemsize();
  nb::capsule owner(array.release(), [](void* at) noexcept { delete static_cast<Values*>(at); });
  return {View(data, {size}, owner), *dtype, each};
}

/// How many blocks are stored in which way: raw, constant, coded.
std::vector<std::size_t> blocks_by_mode(const Layout& layout) {
  std::vector<std::size_t> counts(3);
  for (const auto& block : layout.blocks)
    if (block.mode() < counts.size()) ++counts[block.mode()];
  return counts;
}

/// What blocks of an array become by a codec, or else by each that suits the type.
std::vector<std::tuple<Codec, int, double>> sample_sizes(const Values& values,
                                                         std::optional<Codec> codec,
                                                         std::optional<Dtype> dtype) {
  const Dtype taken = taken_dtype(values, dtype);
  const nb::gil_scoped_release released;
  const auto tried = codec && lanescope::compress::takes(*codec, taken)
                         ? std::vector{*codec}
                         : lanescope::compress::codecs_to_look_for(taken);
  const auto sample = lanescope::compress::sample_on_host(bytes_of(values));
  std::vector<std::tuple<Codec, int, double>> sizes;
  for (const auto& one : lanescope::compress::sizes_of(taken, sample, tried))
    sizes.emplace_back(one.codec, one.dimensionality, one.share);
  return sizes;
}

/// The codec by which an update crosses a link of so many bytes a second soonest.
Codec update_codec(const Values& values, const Values& base, double link) {
  const Dtype taken = taken_dtype(values, std::nullopt);
  const nb::gil_scoped_release released;
  const auto sample = lanescope::compress::sample_on_host(bytes_of(values));
  const auto of_base = lanescope::compress::sample_on_host(bytes_of(base));
  return lanescope::compress::fastest_update(taken, sample, of_base, link).codec;
}

void bind_registry(nb::module_& module) {
  nb::enum_<Codec> codecs(module, "Codec", "How values are coded in a compressed stream.");
  for (const auto& one : kCodecs) codecs.value(one.name, one.codec, one.description);
  nb::enum_<Dtype> dtypes(module, "Dtype", "What the values of a compressed stream are.");
  for (const auto& one : kDtypes) dtypes.value(one.name, one.dtype);
  nb::enum_<Meaning> meanings(module, "Meaning", "What values mean beyond their type.");
  for (const auto& one : kMeanings) meanings.value(one.name, one.meaning);
  nb::enum_<UpdateKind>(module, "UpdateKind", "What an update holds in place of values.")
      .value("none", UpdateKind::none)
      .value("xor", UpdateKind::exclusive_or)
      .value("subtraction", UpdateKind::subtraction);
  module.def("by_nvcomp", &lanescope::compress::by_nvcomp, "codec"_a,
             "Whether a codec is one of NVIDIA's nvCOMP, for streams alone.");
  module.def("codecs_of", &lanescope::compress::codecs_of, "dtype"_a,
             "The codecs that may make values of a type smaller, the likeliest first.");
}

}  // namespace

void bind_compress(nb::module_& module) {
  bind_registry(module);
  nb::class_<Layout>(module, "StreamLayout", "What a compressed stream says of itself.")
      .def_prop_ro("codec", [](const Layout& self) { return self.header.codec; })
      .def_prop_ro("dtype", [](const Layout& self) { return self.header.dtype; })
      .def_prop_ro("meaning", [](const Layout& self) { return self.header.meaning; })
      .def_prop_ro("dimensionality", [](const Layout& self) { return self.header.dimensionality; })
      .def_prop_ro("difference", [](const Layout& self) { return self.header.difference(); })
      .def_ro("base", &Layout::base, "Of an update: the sum of the checksum of its base.")
      .def_prop_ro("bytes", [](const Layout& self) { return self.header.bytes; })
      .def_prop_ro("stored_bytes", [](const Layout& self) { return self.header.stored_bytes; })
      .def_ro("shape", &Layout::shape)
      .def_prop_ro("blocks_by_mode", &blocks_by_mode);
  module.def("can_compress", &lanescope::compress::takes, "codec"_a, "dtype"_a,
             "Whether a codec of lanescope's own takes values of a type.");
  module.def(
      "stream_layout",
      [](const Stream& stream) { return lanescope::compress::layout_of(bytes_of(stream)); },
      "stream"_a, "Read and check a stream's header.");
  module.def("bytes_view", &bytes_view, "values"_a,
             nb::sig("def bytes_view(values: object) -> "
                     "tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], "
                     "Dtype, int]"),
             "The bytes of an array in the host's memory, not copied, what its values are, and the "
             "bytes of each.");
  module.def(
      "compress", &compress, "values"_a.noconvert(), "codec"_a.none(), "dtype"_a = nb::none(),
      "dimensionality"_a = 1, "threads"_a = 0, "meaning"_a = nb::none(),
      "base"_a.noconvert() = nb::none(),
      nb::sig("def compress(values: object, codec: Codec | None, dtype: Dtype | None = None, "
              "dimensionality: int = 1, threads: int = 0, meaning: Meaning | None = None, "
              "base: object | None = None) -> "
              "Annotated[NDArray[numpy.uint8], dict(shape=(None,))]"),
      "Compress the values of an array in the host's memory, by the codec that makes some "
      "blocks smallest if none is given; returns the stream.");
  module.def(
      "sample_sizes", &sample_sizes, "values"_a.noconvert(), "codec"_a = nb::none(),
      "dtype"_a = nb::none(),
      nb::sig("def sample_sizes(values: object, codec: Codec | None = None, "
              "dtype: Dtype | None = None) -> list[tuple[Codec, int, float]]"),
      "Of each codec its dimensionality and what it leaves of some blocks of an array in the "
      "host's memory.");
  module.def("update_codec", &update_codec, "values"_a.noconvert(), "base"_a.noconvert(), "link"_a,
             nb::sig("def update_codec(values: object, base: object, link: float) -> Codec"),
             "The codec by which an update crosses a link of so many bytes a second soonest.");
  module.def("most_stream_bytes", &lanescope::compress::most_stream_bytes, "bytes"_a,
             "dimensions"_a, "Most bytes of the stream of an array.");
  module.def(
      "compress_into",
      [](const Values& values, const StreamRoom& out, std::optional<Codec> codec,
         std::optional<Dtype> dtype, int dimensionality, int threads,
         std::optional<Meaning> meaning, const std::optional<Values>& base) {
        return compress_into(values, codec, dtype, dimensionality, threads, meaning, base,
                             {reinterpret_cast<std::byte*>(out.data()), out.nbytes()});
      },
      "values"_a.noconvert(), "out"_a.noconvert(), "codec"_a.none(), "dtype"_a = nb::none(),
      "dimensionality"_a = 1, "threads"_a = 0, "meaning"_a = nb::none(),
      "base"_a.noconvert() = nb::none(),
      nb::sig("def compress_into(values: object, out: object, codec: Codec | None, "
              "dtype: Dtype | None = None, dimensionality: int = 1, threads: int = 0, "
              "meaning: Meaning | None = None, base: object | None = None) -> int"),
      "Compress into memory that is there; returns the stream's length.");
  module.def("decompress", &decompress, "stream"_a, "out"_a.noconvert(), "threads"_a = 0,
             "base"_a.noconvert() = nb::none(),
             nb::sig("def decompress(stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,))], "
                     "out: object, threads: int = 0, base: object | None = None) -> None"),
             "Decompress a stream into an array of as many bytes, an update with its base.");
}
