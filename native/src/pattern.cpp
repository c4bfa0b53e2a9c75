#include "pattern.hpp"

#include <atomic>

#include "host/parallel.hpp"

namespace lanescope {

namespace {

constexpr std::size_t kWordsOfAThread = std::size_t{1} << 20;

}  // namespace

void fill_pattern(void* data, std::size_t bytes, std::uint64_t seed) {
  auto* words = static_cast<std::uint64_t*>(data);
  const std::size_t whole = bytes / 8;
  in_parallel(whole, kWordsOfAThread, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) words[i] = pattern_word(seed, i);
  });
  auto* tail = static_cast<std::uint8_t*>(data);
  for (std::size_t i = whole * 8; i < bytes; ++i) tail[i] = pattern_byte(seed, i);
}

std::size_t count_mismatches(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  const auto* all = static_cast<const std::uint8_t*>(data);
  const std::size_t whole = bytes / 8;
  std::atomic<std::size_t> sum = 0;
  in_parallel(whole, kWordsOfAThread, [&](std::size_t first, std::size_t last) {
    std::size_t wrong = 0;
    for (std::size_t i = first; i < last; ++i) {
      if (words[i] == pattern_word(seed, i)) continue;
      for (std::size_t j = i * 8; j < i * 8 + 8; ++j) wrong += all[j] != pattern_byte(seed, j);
    }
    sum += wrong;
  });
  for (std::size_t i = whole * 8; i < bytes; ++i) sum += all[i] != pattern_byte(seed, i);
  return sum;
}

}  // namespace lanescope
