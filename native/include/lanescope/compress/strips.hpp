#pragma once

#include <cstdint>

#include "lanescope/compress/format.hpp"
#include "lanescope/compress/gfc.hpp"

namespace lanescope::compress {

/// Calls `go` with an object of the class that codes such values; false where there is none.
template <typename Go>
bool with_strip(Codec codec, Dtype dtype, Go go) {
  switch (codec) {
    case Codec::gfc:
      if (dtype == Dtype::float64) return go(GfcStrip<std::uint64_t>{}), true;
      if (dtype == Dtype::float32) return go(GfcStrip<std::uint32_t>{}), true;
      return false;
    case Codec::raw:
    case Codec::exponent:
    case Codec::delta:
      return false;
  }
  return false;
}

}  // namespace lanescope::compress
