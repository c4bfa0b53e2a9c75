#pragma once

#include <cstddef>
#include <cstdint>

#include "host_device.hpp"

namespace lanescope {

/// Word number `index` of the pattern that buffers are filled with.
///
/// Depends on nothing but seed and index, so that every part of a buffer can be
/// written and checked on its own, by any thread of a CPU or a GPU. The mixing is
/// the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
LANESCOPE_HOST_DEVICE inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Byte number `index` of the same pattern (little-endian words).
LANESCOPE_HOST_DEVICE inline std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t index) {
  return static_cast<std::uint8_t>(pattern_word(seed, index / 8) >> (8 * (index % 8)));
}

/// Fills `bytes` bytes at `data` (8-byte aligned) with the pattern.
void fill_pattern(void* data, std::size_t bytes, std::uint64_t seed);

/// Number of bytes at `data` (8-byte aligned) that differ from the pattern.
std::size_t count_mismatches(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace lanescope
