#pragma once

#include "compress/strip_codec.hpp"
#include "lanescope_codec_headers.hpp"  // written by cmake/codecs.cmake

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

template <Codec codec, Coder coder, typename Go>
bool with_strip_of(Dtype dtype, Go go) {
  if constexpr (coder == Coder::strips) return CodecOf<codec>::with_strip(dtype, go);
  return false;
}

/// Calls `go` with an object of the class that codes such values; false where there is none.
template <typename Go>
bool with_strip(Codec codec, Dtype dtype, Go go) {
  switch (codec) {
#define LANESCOPE_CASE(name, number, coder, ...) \
  case Codec::name:                              \
    return with_strip_of<Codec::name, Coder::coder>(dtype, go);
    LANESCOPE_CODECS(LANESCOPE_CASE)
#undef LANESCOPE_CASE
  }
  return false;
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
