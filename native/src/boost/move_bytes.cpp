#include "boost/move_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lanescope::boost {

void move_through_caches(char* to, const char* from, std::size_t bytes) noexcept {
  // memcpy writes past the caches what is longer than it thinks good.
  constexpr std::size_t kThroughCaches = 64 << 10;
  for (std::size_t at = 0; at < bytes; at += kThroughCaches)
    std::memcpy(to + at, from + at, std::min(kThroughCaches, bytes - at));
}

#if defined(__SSE2__)
void move_past_caches(char* to, const char* from, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64, kWord = sizeof(__m128i);
  const std::size_t to_line = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  std::size_t at = std::min(to_line, bytes);
  std::memcpy(to, from, at);
  for (; at + kLine <= bytes; at += kLine) {
    __m128i words[kLine / kWord];
    std::memcpy(words, from + at, kLine);
    for (std::size_t i = 0; i < kLine / kWord; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, words[i]);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // such writes are not in order with what says that they are done
}
#else
void move_past_caches(char* to, const char* from, std::size_t bytes) noexcept {
  move_through_caches(to, from, bytes);
}
#endif

}  // namespace lanescope::boost
