#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress/blocks.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// One word's part of a checksum. Each word is mixed with its place by steps that can be undone,
/// and parts are added up: so words may be taken in any order, by any number of threads, and no
/// change of one word leaves the sum as it was.
LANESCOPE_LANES constexpr std::uint64_t checksum_part(std::uint64_t word, std::uint64_t place) {
  std::uint64_t x = word ^ ((place + 1) * 0x9E3779B97F4A7C15U);
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
  return x ^ (x >> 29);
}

/// The part of the number of bytes.
LANESCOPE_LANES constexpr std::uint64_t checksum_begin(std::uint64_t bytes) {
  return checksum_part(bytes, ~std::uint64_t{0} - 1);
}

/// The part of a block's place, apart from those of words; 0 where nothing is bound.
LANESCOPE_LANES constexpr std::uint64_t checksum_place(const Binding& binding,
                                                       std::uint64_t block) {
  constexpr std::uint64_t kPlaces = std::uint64_t{1} << 63;
  return binding.bound ? checksum_part(binding.array, kPlaces + binding.first_block + block) : 0;
}

/// 32 bits of a sum of parts.
LANESCOPE_LANES constexpr std::uint32_t checksum_end(std::uint64_t sum) {
  return static_cast<std::uint32_t>((sum * 0x9E3779B97F4A7C15U) >> 32);
}

/// The sum of parts of bytes, as 8-byte words from that place on, of which the last one is filled
/// up with zeros.
inline std::uint64_t sum_of_words(const void* data, std::size_t bytes, std::uint64_t place) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  const std::size_t words = bytes / 8;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, from + 8 * i, 8);
    sum += checksum_part(word, place + i);
  }
  if (bytes % 8 != 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + 8 * words, bytes % 8);
    sum += checksum_part(word, place + words);
  }
  return sum;
}

/// The same of all bytes of something, whose number counts.
inline std::uint64_t checksum_sum(const void* data, std::size_t bytes) {
  return checksum_begin(bytes) + sum_of_words(data, bytes, 0);
}

/// The checksum of bytes, and of the part of their place.
inline std::uint32_t checksum_of(const void* data, std::size_t bytes, std::uint64_t place = 0) {
  return checksum_end(checksum_sum(data, bytes) + place);
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
