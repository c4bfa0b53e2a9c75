#pragma once

#include <cstdint>

#include "lanescope/compress/format.hpp"

namespace lanescope::compress {

/// Calls `go` with an object of the class that codes such values; false where there is none.
template <typename Go>
bool with_strip(Codec codec, Dtype dtype, Go go) {
  (void)codec;
  (void)dtype;
  (void)go;
  return false;
}

}  // namespace lanescope::compress
