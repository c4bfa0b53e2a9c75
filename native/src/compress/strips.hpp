#pragma once

#include <cstdint>

#include "compress/codecs/delta.hpp"
#include "compress/codecs/exponent.hpp"
#include "compress/codecs/gfc.hpp"
#include "compress/codecs/zvc.hpp"
#include "compress/format.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Calls `go` with an object of the class that codes such values; false where there is none.
template <typename Go>
bool with_strip(Codec codec, Dtype dtype, Go go) {
  switch (codec) {
    case Codec::gfc:
      if (dtype == Dtype::float64) return go(GfcStrip<std::uint64_t>{}), true;
      if (dtype == Dtype::float32) return go(GfcStrip<std::uint32_t>{}), true;
      return false;
    case Codec::exponent:
      if (dtype == Dtype::bfloat16) return go(ExponentStrip<Bfloat16>{}), true;
      if (dtype == Dtype::float16) return go(ExponentStrip<Float16>{}), true;
      if (dtype == Dtype::float32) return go(ExponentStrip<Float32>{}), true;
      return false;
    case Codec::delta:
      if (bytes_of(dtype) == 2) return go(DeltaStrip<std::uint16_t>{}), true;
      if (bytes_of(dtype) == 4) return go(DeltaStrip<std::uint32_t>{}), true;
      if (bytes_of(dtype) == 8) return go(DeltaStrip<std::uint64_t>{}), true;
      return false;
    case Codec::zvc:
      if (bytes_of(dtype) == 1) return go(ZvcStrip<std::uint8_t>{}), true;
      if (bytes_of(dtype) == 2) return go(ZvcStrip<std::uint16_t>{}), true;
      if (bytes_of(dtype) == 4) return go(ZvcStrip<std::uint32_t>{}), true;
      if (bytes_of(dtype) == 8) return go(ZvcStrip<std::uint64_t>{}), true;
      return false;
    case Codec::raw:
    case Codec::ans:
    case Codec::bitcomp:
      return false;
  }
  return false;
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
