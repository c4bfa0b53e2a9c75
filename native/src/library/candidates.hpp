#pragma once

#include <algorithm>
#include <vector>

#include "lanescope/compression.hpp"

namespace lanescope::compression {

/// The codecs that may make values of a type smaller, the likeliest first. Whether there are zeros
/// for `zvc` no type tells.
inline std::vector<Codec> codecs_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bfloat16:
    case Dtype::float16:
      return {Codec::exponent, Codec::delta, Codec::zvc};
    case Dtype::float32:
      return {Codec::delta, Codec::exponent, Codec::zvc};
    case Dtype::float64:
      return {Codec::delta, Codec::gfc, Codec::zvc};
    case Dtype::bytes:
    case Dtype::int8:
      return {Codec::zvc};
    default:
      return {Codec::delta, Codec::zvc};
  }
}

/// Whether a codec takes values of a type, suitable or not.
inline bool takes(Codec codec, Dtype dtype) {
  const auto suitable = codecs_of(dtype);
  return codec == Codec::raw || (codec == Codec::gfc && dtype == Dtype::float32) ||
         std::find(suitable.begin(), suitable.end(), codec) != suitable.end();
}

}  // namespace lanescope::compression
