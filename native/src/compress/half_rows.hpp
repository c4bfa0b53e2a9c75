#pragma once

#include <cstdint>
#include <cstring>

#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Planes of a row of 32 codes of 64 bits, of which each half of 16 may have a width of its own, as
/// a strip stores them. A row has `bytes`, which begin at a multiple of 2. Where halves share a
/// width, plane p is a word of 32 bits; else it is 16 bits of the first half, and behind all of
/// these come those of the second one.
///
/// On a GPU both lie where `planes` says: a lane stores or loads one of each half, and one more
/// where there are more than 32.
struct HalfRow {
  static constexpr std::uint32_t kMostWidth = 64;

  /// Widths of the halves, the same where they share one.
  std::uint32_t first = 0, second = 0;

  LANESCOPE_LANES std::uint32_t bytes() const { return 2 * (first + second); }
  LANESCOPE_LANES bool possible() const { return first <= kMostWidth && second <= kMostWidth; }
  LANESCOPE_LANES std::uint32_t most() const { return first > second ? first : second; }

  /// Stores the planes in `words`: of a lane p its planes p and p + 32. The host reads the second
  /// only where there is one, and stores up to 256 bytes: there is room up to the bound of a strip,
  /// and what follows is stored later.
  template <typename Warp>
  LANESCOPE_LANES void store(Warp warp, bool apart,
                             const typename Warp::template Lanes<std::uint32_t>* words,
                             std::uint8_t* out) const {
#ifdef LANESCOPE_ON_DEVICE
    const Places at = places(apart);
    warp.each([&](int lane) {
      const auto p = static_cast<std::uint32_t>(lane);
      std::uint8_t* to = out + p * at.stride;
      if (p < first) store_half(to, words[0][lane]);
      if (p < second) store_half(to + at.second, words[0][lane] >> 16);
      to += kLanes * at.stride;
      if (p + kLanes < first) store_half(to, words[1][lane]);
      if (p + kLanes < second) store_half(to + at.second, words[1][lane] >> 16);
    });
#else
    if (!apart) {
      warp.store_some(out, words[0], 0, kLanes);
      if (first > kLanes) warp.store_some(out + 4 * kLanes, words[1], 0, kLanes);
      return;
    }
    for (int part = 0; part < 2; ++part) {
      const std::uint32_t width = part == 0 ? first : second;
      store_part(words[0], 16 * part, out);
      if (width > kLanes) store_part(words[1], 16 * part, out + 2 * kLanes);
      out += 2 * width;
    }
#endif
  }

  /// Loads what `store` stored; 0 where there is no plane. `there` bytes can be read.
  template <typename Warp>
  LANESCOPE_LANES void load(Warp warp, bool apart, const std::uint8_t* in,
                            [[maybe_unused]] std::uint32_t there,
                            typename Warp::template Lanes<std::uint32_t>* words) const {
#ifdef LANESCOPE_ON_DEVICE
    const Places at = places(apart);
    warp.each([&](int lane) {
      const auto p = static_cast<std::uint32_t>(lane);
      const std::uint8_t* from = in + p * at.stride;
      std::uint32_t low = 0, high = 0;
      if (p < first) low = load_half(from);
      if (p < second) high = load_half(from + at.second);
      words[0][lane] = low | high << 16;
      from += kLanes * at.stride;
      low = high = 0;
      if (p + kLanes < first) low = load_half(from);
      if (p + kLanes < second) high = load_half(from + at.second);
      words[1][lane] = low | high << 16;
    });
#else
    std::uint8_t part[4 * kMostWidth];  // All of it can be read, whatever the widths.
    if (there < sizeof part) {
      std::memset(part, 0, sizeof part);
      std::memcpy(part, in, bytes());
      in = part;
    }
    if (!apart) {
      warp.template load_first<0, kLanes>(in, words[0], static_cast<int>(first));
      load_more(
          warp,
          [&] {
            warp.template load_first<0, kLanes>(in + 4 * kLanes, words[1],
                                                static_cast<int>(first) - kLanes);
          },
          words);
      return;
    }
    load_parts(in, in + 2 * first, 0, words[0]);
    load_more(
        warp, [&] { load_parts(in + 2 * kLanes, in + 2 * first + 2 * kLanes, kLanes, words[1]); },
        words);
#endif
  }

 private:
#ifdef LANESCOPE_ON_DEVICE
  /// Bytes from a plane to the next, and from one of the first half to that of the second.
  struct Places {
    std::uint32_t stride, second;
  };
  LANESCOPE_LANES Places places(bool apart) const {
    return {apart ? 2U : 4U, apart ? 2 * first : 2U};
  }
#else
  static void store_part(const HostWarp::Lanes<std::uint32_t>& words, int shift,
                         std::uint8_t* out) {
    std::uint16_t part[kLanes];
    for (int i = 0; i < kLanes; ++i) part[i] = static_cast<std::uint16_t>(words[i] >> shift);
    std::memcpy(out, part, sizeof part);
  }

  /// Planes from `number` on of both halves, all of which can be read.
  void load_parts(const std::uint8_t* low, const std::uint8_t* high, std::uint32_t number,
                  HostWarp::Lanes<std::uint32_t>& words) const {
    std::uint16_t lows[kLanes], highs[kLanes];
    std::memcpy(lows, low, sizeof lows);
    std::memcpy(highs, high, sizeof highs);
    const int low_count = static_cast<int>(first) - static_cast<int>(number);
    const int high_count = static_cast<int>(second) - static_cast<int>(number);
    for (int i = 0; i < kLanes; ++i)
      words[i] = (i < low_count ? lows[i] : 0U) | (i < high_count ? highs[i] : 0U) << 16;
  }

  template <typename Warp, typename Load>
  void load_more(Warp warp, Load load, HostWarp::Lanes<std::uint32_t>* words) const {
    if (most() > kLanes)
      load();
    else
      warp.each([&](int lane) { words[1][lane] = 0; });
  }
#endif
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
