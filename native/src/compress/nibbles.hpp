#pragma once

#include <cstdint>

#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// A word of each lane.
inline constexpr std::uint32_t kRowBytes = kLanes * 4;

/// Four words of eight codes each in 4, 3 or 2 words.
template <typename Warp>
LANESCOPE_LANES void store_nibbles(Warp warp,
                                   const typename Warp::template Lanes<std::uint32_t>* nibbles,
                                   std::uint32_t width, std::uint8_t* out) {
  const auto& a = nibbles[0];
  const auto& b = nibbles[1];
  const auto& c = nibbles[2];
  const auto& d = nibbles[3];
  if (width == 4) {
    warp.each([&](int lane) {
      store_word(out + 4 * lane, a[lane]);
      store_word(out + 4 * lane + kRowBytes, b[lane]);
      store_word(out + 4 * lane + 2 * kRowBytes, c[lane]);
      store_word(out + 4 * lane + 3 * kRowBytes, d[lane]);
    });
  } else if (width == 3) {
    warp.each([&](int lane) {
      store_word(out + 4 * lane, a[lane] | (d[lane] & 0x11111111) << 3);
      store_word(out + 4 * lane + kRowBytes, b[lane] | (d[lane] & 0x22222222) << 2);
      store_word(out + 4 * lane + 2 * kRowBytes, c[lane] | (d[lane] & 0x44444444) << 1);
    });
  } else {
    warp.each([&](int lane) {
      store_word(out + 4 * lane, a[lane] | b[lane] << 2);
      store_word(out + 4 * lane + kRowBytes, c[lane] | d[lane] << 2);
    });
  }
}

template <typename Warp>
LANESCOPE_LANES void load_nibbles(Warp warp, const std::uint8_t* in, std::uint32_t width,
                                  typename Warp::template Lanes<std::uint32_t>* nibbles) {
  auto& a = nibbles[0];
  auto& b = nibbles[1];
  auto& c = nibbles[2];
  auto& d = nibbles[3];
  if (width == 4) {
    warp.each([&](int lane) {
      a[lane] = load_word(in + 4 * lane);
      b[lane] = load_word(in + 4 * lane + kRowBytes);
      c[lane] = load_word(in + 4 * lane + 2 * kRowBytes);
      d[lane] = load_word(in + 4 * lane + 3 * kRowBytes);
    });
  } else if (width == 3) {
    warp.each([&](int lane) {
      const std::uint32_t x = load_word(in + 4 * lane);
      const std::uint32_t y = load_word(in + 4 * lane + kRowBytes);
      const std::uint32_t z = load_word(in + 4 * lane + 2 * kRowBytes);
      a[lane] = x & 0x77777777;
      b[lane] = y & 0x77777777;
      c[lane] = z & 0x77777777;
      d[lane] = (x >> 3 & 0x11111111) | (y >> 2 & 0x22222222) | (z >> 1 & 0x44444444);
    });
  } else {
    warp.each([&](int lane) {
      const std::uint32_t x = load_word(in + 4 * lane);
      const std::uint32_t y = load_word(in + 4 * lane + kRowBytes);
      a[lane] = x & 0x33333333;
      b[lane] = x >> 2 & 0x33333333;
      c[lane] = y & 0x33333333;
      d[lane] = y >> 2 & 0x33333333;
    });
  }
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
