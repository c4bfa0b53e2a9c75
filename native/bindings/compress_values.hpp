#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/format.hpp"
#include "error.hpp"
#include "lent_array.hpp"

// What codecs have to know of arrays that Python lends.

inline std::optional<lanescope::compress::Dtype> dtype_of(nanobind::dlpack::dtype type) {
  using lanescope::compress::Dtype;
  if (type.lanes != 1) return std::nullopt;
  const auto of_bits = [&](std::optional<Dtype> one, std::optional<Dtype> two,
                           std::optional<Dtype> four, std::optional<Dtype> eight) {
    switch (type.bits) {
      case 8:
        return one;
      case 16:
        return two;
      case 32:
        return four;
      case 64:
        return eight;
      default:
        return std::optional<Dtype>();
    }
  };
  switch (static_cast<nanobind::dlpack::dtype_code>(type.code)) {
    case nanobind::dlpack::dtype_code::Int:
      return of_bits(Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64);
    case nanobind::dlpack::dtype_code::UInt:
      return of_bits(Dtype::bytes, Dtype::uint16, Dtype::uint32, Dtype::uint64);
    case nanobind::dlpack::dtype_code::Float:
      return of_bits({}, Dtype::float16, Dtype::float32, Dtype::float64);
    case nanobind::dlpack::dtype_code::Bfloat:
      return of_bits({}, Dtype::bfloat16, {}, {});
    case nanobind::dlpack::dtype_code::Bool:
      return of_bits(Dtype::bytes, {}, {}, {});
    default:
      return std::nullopt;
  }
}

/// What the values are: as the caller says, or as their type tells. Throws `Error` where neither
/// does or values have another size.
template <typename Values>
lanescope::compress::Dtype taken_dtype(const Values& values,
                                       std::optional<lanescope::compress::Dtype> dtype) {
  using lanescope::Error;
  if (!dtype) dtype = dtype_of(values.dtype());
  if (!dtype)
    throw Error("compress", 0, "bad values", "values of this type are none that can be compressed");
  if (lanescope::compress::bytes_of(*dtype) != values.itemsize())
    throw Error("compress", 0, "bad values",
                "values of " + std::to_string(values.itemsize()) + " bytes are not " +
                    nanobind::cast<std::string>(nanobind::cast(*dtype).attr("name")));
  return *dtype;
}

template <typename Array>
std::span<const std::byte> bytes_of(const Array& array) {
  return {reinterpret_cast<const std::byte*>(array.data()), array.nbytes()};
}

/// The bytes of a base, if one is given.
template <typename Values>
std::optional<std::span<const std::byte>> base_of(const std::optional<Values>& base) {
  if (!base) return std::nullopt;
  return bytes_of(*base);
}

template <typename Values>
std::vector<std::uint64_t> shape_of(const Values& values) {
  std::vector<std::uint64_t> shape(values.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = values.shape(i);
  return shape;
}
