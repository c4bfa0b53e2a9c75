#pragma once

#include "compress/device_shape.hpp"
#include "compress/strip_codec.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Blocks that are not coded have kernels as those of codecs, and no code on the host.
template <>
struct CodecOf<Codec::raw> : StripCodec {
  template <typename Go>
  static bool with_strip(Dtype, Go go) {
    return go(NoStrip{}), true;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
