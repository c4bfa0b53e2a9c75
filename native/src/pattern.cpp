#include "lanescope/pattern.hpp"

namespace lanescope {

void fill_pattern(void* data, std::size_t bytes, std::uint64_t seed) {
  auto* words = static_cast<std::uint64_t*>(data);
  const std::size_t whole = bytes / 8;
  for (std::size_t i = 0; i < whole; ++i) words[i] = pattern_word(seed, i);
  auto* tail = static_cast<std::uint8_t*>(data);
  for (std::size_t i = whole * 8; i < bytes; ++i) tail[i] = pattern_byte(seed, i);
}

std::size_t count_mismatches(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  const auto* all = static_cast<const std::uint8_t*>(data);
  std::size_t wrong = 0;
  const std::size_t whole = bytes / 8;
  for (std::size_t i = 0; i < whole; ++i) {
    if (words[i] == pattern_word(seed, i)) continue;
    for (std::size_t j = i * 8; j < i * 8 + 8; ++j) wrong += all[j] != pattern_byte(seed, j);
  }
  for (std::size_t i = whole * 8; i < bytes; ++i) wrong += all[i] != pattern_byte(seed, i);
  return wrong;
}

}  // namespace lanescope
