#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/lanes.hpp"
#include "lanescope/codecs.hpp"

namespace lanescope::compress {

using compression::UpdateKind;

inline namespace LANESCOPE_CPU {

/// How values and their base become differences, and back: 64 bits at a time, in lanes of a value
/// each, by their bits as unsigned integers.
struct Differing {
  UpdateKind kind = UpdateKind::none;
  std::uint64_t tops = 0;  ///< The top bit of each lane; all bits where differences are by xor,
                           ///< which is subtraction in lanes of one bit.

  LANESCOPE_LANES static constexpr Differing of(UpdateKind kind, std::size_t value_bytes) {
    return {kind, kind == UpdateKind::exclusive_or ? ~std::uint64_t{0}
                  : value_bytes == 1               ? 0x8080808080808080U
                  : value_bytes == 2               ? 0x8000800080008000U
                  : value_bytes == 4               ? 0x8000000080000000U
                                                   : 0x8000000000000000U};
  }

  /// The differences of values to those of the base. No lane borrows from another.
  LANESCOPE_LANES constexpr std::uint64_t take(std::uint64_t values, std::uint64_t base) const {
#ifndef LANESCOPE_ON_DEVICE
    if (kind == UpdateKind::exclusive_or) return values ^ base;
#endif
    return ((values | tops) - (base & ~tops)) ^ ((values ^ ~base) & tops);
  }

  /// The values again.
  LANESCOPE_LANES constexpr std::uint64_t put(std::uint64_t differences, std::uint64_t base) const {
#ifndef LANESCOPE_ON_DEVICE
    if (kind == UpdateKind::exclusive_or) return differences ^ base;
#endif
    return ((differences & ~tops) + (base & ~tops)) ^ ((differences ^ base) & tops);
  }
};

}  // namespace LANESCOPE_CPU

/// Whether a number in a stream is one of them.
constexpr bool is_known(UpdateKind kind) {
  return kind <= UpdateKind::subtraction;
}

}  // namespace lanescope::compress
