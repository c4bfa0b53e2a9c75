#pragma once

#include <cstdint>
#include <cstring>

#include "compress/warp.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// 4 bytes at a multiple of 4, whatever lies there: one load on a GPU, too.
LANESCOPE_LANES inline std::uint32_t load_word(const void* at) {
#ifdef LANESCOPE_ON_DEVICE
  return *static_cast<const std::uint32_t*>(at);
#else
  std::uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
#endif
}

LANESCOPE_LANES inline void store_word(void* at, std::uint32_t word) {
#ifdef LANESCOPE_ON_DEVICE
  *static_cast<std::uint32_t*>(at) = word;
#else
  std::memcpy(at, &word, sizeof(word));
#endif
}

/// 2 bytes at a multiple of 2.
LANESCOPE_LANES inline std::uint32_t load_half(const void* at) {
#ifdef LANESCOPE_ON_DEVICE
  return *static_cast<const std::uint16_t*>(at);
#else
  std::uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return half;
#endif
}

/// The lower 16 bits.
LANESCOPE_LANES inline void store_half(void* at, std::uint32_t bits) {
  const auto half = static_cast<std::uint16_t>(bits);
#ifdef LANESCOPE_ON_DEVICE
  *static_cast<std::uint16_t*>(at) = half;
#else
  std::memcpy(at, &half, sizeof(half));
#endif
}

/// Bits up to the highest one that is set.
LANESCOPE_LANES inline std::uint32_t bit_length(std::uint32_t bits) {
#ifdef LANESCOPE_ON_DEVICE
  return 32 - static_cast<std::uint32_t>(__clz(static_cast<int>(bits)));
#else
  return bits == 0 ? 0 : 32 - static_cast<std::uint32_t>(__builtin_clz(bits));
#endif
}

/// The place of the lowest bit of `bits`, which are not all 0.
LANESCOPE_LANES inline std::uint32_t lowest_bit(std::uint32_t bits) {
#ifdef LANESCOPE_ON_DEVICE
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
#else
  return static_cast<std::uint32_t>(__builtin_ctz(bits));
#endif
}

LANESCOPE_LANES inline std::uint32_t bits_set(std::uint32_t bits) {
#ifdef LANESCOPE_ON_DEVICE
  return static_cast<std::uint32_t>(__popc(bits));
#else
  bits -= bits >> 1 & 0x55555555;  // Steps that vectorise without an instruction for it.
  bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F;
  bits += bits >> 8;
  return (bits + (bits >> 16)) & 0x3F;
#endif
}

LANESCOPE_LANES constexpr std::uint32_t parts_of(std::uint32_t count, std::uint32_t size) {
  return (count + size - 1) / size;
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
