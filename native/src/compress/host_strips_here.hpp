#pragma once

// `HostStrips` for the CPUs that the file which includes this is compiled for. It has named them as
// LANESCOPE_CPU, and includes nothing of the standard library whose functions are not C's: what is
// compiled here for newer CPUs must not be taken for the same function in other files.

#include "compress/block.hpp"
#include "compress/checksum.hpp"
#include "compress/host_strips.hpp"
#include "compress/strips.hpp"
#include "compress/warp.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

inline std::size_t encode_here(const StripKind& kind, const std::byte* in, std::size_t bytes,
                               std::byte* out) {
  std::size_t used = 0;
  with_strip(kind.codec, kind.dtype, [&]<typename Strip>(Strip) {
    static_assert(most_payload_bytes<Strip>() <= kMostPayloadBytes);
    used = encode_block<Strip>(HostWarp{}, in, bytes, Settings{kind.dimensionality}, out);
  });
  return used;
}

inline bool decode_here(const StripKind& kind, const std::byte* payload, std::size_t payload_bytes,
                        std::byte* out, std::size_t bytes) {
  bool good = false;
  with_strip(kind.codec, kind.dtype, [&]<typename Strip>(Strip) {
    good = decode_block<Strip>(HostWarp{}, payload, payload_bytes,
                               Settings{kind.dimensionality, kind.version}, out, bytes);
  });
  return good;
}

inline constexpr HostStrips strips_here(const char* name) {
  return {name, encode_here, decode_here, checksum_of, sum_of_words};
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
