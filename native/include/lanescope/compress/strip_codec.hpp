#pragma once

#include <cstddef>
#include <cstdint>

#include "lanescope/compress/warp.hpp"

namespace lanescope::compress {

// A strip codec codes up to `kStripBytes` of values of one kind, by one warp. It is a class with
//
//   using Word                 unsigned integer of a value's size
//   static constexpr std::uint32_t bound(std::uint32_t values)
//       most bytes that `encode` writes, a multiple of 4
//   template <typename Warp>
//   static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
//                               const Settings& settings, std::uint8_t* out)
//       returns how many bytes it wrote; writes nothing beyond `bound(values)`
//   template <typename Warp>
//   static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
//                      const Settings& settings, Word* out, std::uint32_t values)
//       false where `in` is not what `encode` makes of so many values; reads nothing beyond
//       `bytes`, writes nothing beyond `values`, whatever `in` holds
//
// all of them LANESCOPE_LANES. `in` and `out` may lie in a GPU's shared or global memory; `in` of
// `encode` and `out` of `decode` are aligned to 16 bytes, the coded side to 4. Every number of
// values from 1 on is possible, as the last strip of a stream is shorter.

/// What a stream says of its codec.
struct Settings {
  int dimensionality = 1;
};

}  // namespace lanescope::compress
