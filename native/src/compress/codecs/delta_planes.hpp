#pragma once

#include <cstdint>

#include "compress/codecs/delta_shape.hpp"
#include "compress/half_rows.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Widths and planes of the groups of a strip: to store codes, and to load them.
template <typename W>
struct DeltaPlanes {
  using Word = W;
  using Shape = DeltaShape<Word>;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  /// Of `kAtOnce` groups, as they were stored.
  template <typename Warp>
  struct Loaded {
    Lanes<Warp, std::uint32_t> words[Shape::kAtOnce * Shape::kWords];
    std::uint32_t width[Shape::kAtOnce];

    LANESCOPE_LANES bool empty() const {
      std::uint32_t all = 0;
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) all |= width[k];
      return all == 0;
    }
  };

  LANESCOPE_LANES static constexpr std::uint32_t planes_at(std::uint32_t widths) {
    return Shape::kHeader + parts_of(widths, 4) * 4;
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_widths(Warp warp, std::uint32_t widths, std::uint8_t* out) {
    warp.each([&](int lane) {
      if constexpr (Shape::kAtOnce == 4)
        store_word(out, widths);  // All lanes the same: that takes no branch.
      else if (lane == 0)
        *out = static_cast<std::uint8_t>(widths);
    });
  }

  /// Widths of the next `kAtOnce` of `left` groups, 0 where there are none.
  LANESCOPE_LANES static std::uint32_t load_widths(const std::uint8_t* in, std::uint32_t left) {
    if constexpr (Shape::kAtOnce == 4) {
      const std::uint32_t widths = load_word(in);
      return left >= 4 ? widths : widths & ((1U << 8 * left) - 1);
    } else {
      return *in;
    }
  }

  /// Stores widths and planes of `kAtOnce` groups; the planes at `at`, which it moves behind them.
  template <typename Warp>
  LANESCOPE_LANES static void store_groups(Warp warp, typename Warp::Turns turns,
                                           const Lanes<Warp, Word>* codes, std::uint32_t group,
                                           std::uint8_t* out, std::uint32_t& at) {
    std::uint32_t width[Shape::kAtOnce], widths = 0;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      Lanes<Warp, Word> both = codes[k * Shape::kParts];
      if constexpr (Shape::kParts == 2)
        warp.each([&](int lane) {
          both[lane] = static_cast<Word>(both[lane] | codes[k * Shape::kParts + 1][lane]);
        });
      width[k] = Shape::width_of(warp.any_bits(both));
      widths |= width[k] << 8 * k;
    }
    store_widths(warp, widths, out + Shape::kHeader + group);
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      store_planes(warp, turns, codes + k * Shape::kParts, static_cast<int>(width[k]), out + at);
      at += width[k] * Shape::kParts * 4;
    }
  }

  /// The same of 64-bit values, of which halves of groups may have widths.
  template <typename Warp>
  LANESCOPE_LANES static void store_rows(Warp warp, typename Warp::Turns turns,
                                         const Lanes<Warp, Word>* codes, bool halves,
                                         std::uint32_t group, std::uint32_t groups,
                                         std::uint8_t* out, std::uint32_t& at) {
    Lanes<Warp, std::uint32_t> words[Shape::kAtOnce * 2];
    HalfRow rows[Shape::kAtOnce];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      rows[k] = transposed_row(warp, turns, codes[k], words + 2 * k);
      if (!halves) rows[k].first = rows[k].second = rows[k].most();
    }
    store_row_widths(warp, rows, halves, groups - group,
                     out + Shape::kHeader + (group << (halves ? 1 : 0)));
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      rows[k].store(warp, halves, words + 2 * k, out + at);
      at += rows[k].bytes();
    }
  }

  /// Planes and widths of 32 codes. On a GPU lanes vote on their planes: that takes less than to
  /// bring together the bits of codes.
  template <typename Warp>
  LANESCOPE_LANES static HalfRow transposed_row(Warp warp, typename Warp::Turns turns,
                                                const Lanes<Warp, Word>& codes,
                                                Lanes<Warp, std::uint32_t>* words) {
    warp.each([&](int lane) { words[0][lane] = static_cast<std::uint32_t>(codes[lane]); });
    words[0] = warp.transpose(words[0], turns);
#ifndef LANESCOPE_ON_DEVICE
    Word first, second;
    warp.any_bits(codes, first, second);
    const HalfRow row{Shape::width_of(first), Shape::width_of(second)};
    if (row.most() <= kLanes) return row;
#endif
    warp.each([&](int lane) {
      words[1][lane] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(codes[lane]) >> 32);
    });
    words[1] = warp.transpose(words[1], turns);
#ifdef LANESCOPE_ON_DEVICE
    const auto width = [&](std::uint32_t mask) {
      const std::uint32_t low = warp.lanes_with(words[0], mask);
      const std::uint32_t high = warp.lanes_with(words[1], mask);
      return high != 0 ? kLanes + bit_length(high) : bit_length(low);
    };
    const HalfRow row{width(0xFFFF), width(0xFFFF0000)};
#endif
    return row;
  }

  /// Widths of `kAtOnce` groups, of which `left` or more are there.
  template <typename Warp>
  LANESCOPE_LANES static void store_row_widths(Warp warp, const HalfRow* rows, bool halves,
                                               [[maybe_unused]] std::uint32_t left,
                                               std::uint8_t* out) {
#ifdef LANESCOPE_ON_DEVICE  // All lanes the same: that takes no branch.
    std::uint32_t whole = 0, low = 0, high = 0;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      whole |= rows[k].first << 8 * k;
      (k < 2 ? low : high) |= (rows[k].first | rows[k].second << 8) << 16 * (k % 2);
    }
    warp.each([&](int) { store_word(out, halves ? low : whole); });
    if (halves && left > 2) warp.each([&](int) { store_word(out + 4, high); });
#else
    static_cast<void>(warp);
    out[0] = static_cast<std::uint8_t>(rows[0].first);
    if (halves) out[1] = static_cast<std::uint8_t>(rows[0].second);
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_planes(Warp warp, typename Warp::Turns turns,
                                           const Lanes<Warp, Word>* parts, int width,
                                           std::uint8_t* out) {
    Lanes<Warp, std::uint32_t> words;
    if constexpr (sizeof(Word) == 2) {
      warp.each([&](int lane) {
        words[lane] = parts[0][lane] | static_cast<std::uint32_t>(parts[1][lane]) << 16;
      });
      words = warp.transpose(words, turns);
      store_first<16>(warp, out, words, 0, width);
      store_first<16>(warp, out + 4 * width, words, 16, width);
    } else {
      warp.each([&](int lane) { words[lane] = parts[0][lane]; });
      words = warp.transpose(words, turns);
      store_first<32>(warp, out, words, 0, width);
    }
  }

  /// Stores `count` lanes from `first` on. The host stores `most`, since that takes one step for
  /// any count: there is room up to the bound of a strip, and what follows is stored later.
  template <int most, typename Warp>
  LANESCOPE_LANES static void store_first(Warp warp, std::uint8_t* out,
                                          const Lanes<Warp, std::uint32_t>& words, int first,
                                          int count) {
#ifdef LANESCOPE_ON_DEVICE
    warp.store_some(out, words, first, count);
#else
    static_cast<void>(count);
    warp.store_some(out, words, first, most);
#endif
  }

  /// Loads planes of `kAtOnce` groups from `at` on, which it moves behind them. False where they do
  /// not lie in `bytes`.
  template <typename Warp>
  LANESCOPE_LANES static bool load_planes(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                          bool halves, std::uint32_t group, std::uint32_t groups,
                                          std::uint32_t& at, Loaded<Warp>& planes) {
    if (Shape::kAhead && group >= groups) return true;
    if constexpr (Shape::kWide)
      return load_rows(warp, in, bytes, halves, group, groups, at, planes);
    else
      return load_groups(warp, in, bytes, group, groups, at, planes);
  }

  /// Those of other than 64-bit values.
  template <typename Warp>
  LANESCOPE_LANES static bool load_groups(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                          std::uint32_t group, std::uint32_t groups,
                                          std::uint32_t& at, Loaded<Warp>& planes) {
    const std::uint32_t widths = load_widths(in + Shape::kHeader + group, groups - group);
    std::uint32_t begin[Shape::kAtOnce];
    bool possible = true;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      begin[k] = at;
      planes.width[k] = widths >> 8 * k & 0xFF;
      possible = possible && planes.width[k] <= Shape::kBits;
      at += planes.width[k] * Shape::kParts * 4;
    }
    if (!possible || at > bytes) return false;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k)
      load_group(warp, in + begin[k], bytes - begin[k], static_cast<int>(planes.width[k]),
                 planes.words + k * Shape::kWords);
    return true;
  }

  /// Those of 64-bit values.
  template <typename Warp>
  LANESCOPE_LANES static bool load_rows(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                        bool halves, std::uint32_t group, std::uint32_t groups,
                                        std::uint32_t& at, Loaded<Warp>& planes) {
    HalfRow rows[Shape::kAtOnce];
    load_row_widths(in + Shape::kHeader + (group << (halves ? 1 : 0)), halves, groups - group,
                    rows);
    std::uint32_t begin[Shape::kAtOnce];
    bool possible = true;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      begin[k] = at;
      planes.width[k] = rows[k].most();
      possible = possible && rows[k].possible();
      at += rows[k].bytes();
    }
    if (!possible || at > bytes) return false;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k)
      rows[k].load(warp, halves, in + begin[k], bytes - begin[k], planes.words + k * Shape::kWords);
    return true;
  }

  /// Widths of the next `kAtOnce` of `left` groups, 0 where there are none.
  LANESCOPE_LANES static void load_row_widths(const std::uint8_t* in, bool halves,
                                              [[maybe_unused]] std::uint32_t left, HalfRow* rows) {
#ifdef LANESCOPE_ON_DEVICE
    const std::uint32_t told = load_word(in);
    std::uint32_t pairs[2] = {told, halves && left > 2 ? load_word(in + 4) : 0};
    if (!halves) {  // Each byte twice.
      pairs[0] = (told & 0xFF) * 0x0101 | (told >> 8 & 0xFF) * 0x01010000;
      pairs[1] = (told >> 16 & 0xFF) * 0x0101 | (told >> 24) * 0x01010000;
    }
    if (left < 4) {
      pairs[1] &= left == 3 ? 0xFFFF : 0;
      pairs[0] &= left == 1 ? 0xFFFF : 0xFFFFFFFF;
    }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k) {
      const std::uint32_t pair = pairs[k / 2] >> 16 * (k % 2);
      rows[k] = {pair & 0xFF, pair >> 8 & 0xFF};
    }
#else
    rows[0] = {in[0], in[halves ? 1 : 0]};
#endif
  }

  /// `there` bytes can be read.
  template <typename Warp>
  LANESCOPE_LANES static void load_group(Warp warp, const std::uint8_t* in, std::uint32_t there,
                                         int width, Lanes<Warp, std::uint32_t>* words) {
#ifndef LANESCOPE_ON_DEVICE
    if (there >= Shape::kGroup * sizeof(Word)) {
      if constexpr (sizeof(Word) == 2) {
        warp.template load_first<0, 16>(in, words[0], width);
        warp.template load_first<16, 16>(in + 4 * width, words[0], width);
      } else {
        warp.template load_first<0, 32>(in, words[0], width);
      }
      return;
    }
#endif
    static_cast<void>(there);
    warp.each([&](int lane) { words[0][lane] = 0; });
    if constexpr (sizeof(Word) == 2) {
      warp.load_some(in, words[0], 0, width);
      warp.load_some(in + 4 * width, words[0], 16, width);
    } else {
      warp.load_some(in, words[0], 0, width);
    }
  }

  /// The differences of a group, of which the planes were loaded.
  template <typename Warp>
  LANESCOPE_LANES static void take_planes(Warp warp, typename Warp::Turns turns,
                                          const Lanes<Warp, std::uint32_t>* planes,
                                          std::uint32_t width, Lanes<Warp, Word>* parts) {
    const Lanes<Warp, std::uint32_t> low = warp.transpose(planes[0], turns);
    if constexpr (sizeof(Word) == 2) {
      warp.each([&](int lane) {
        parts[0][lane] = Shape::zigzag_back(static_cast<Word>(low[lane]));
        parts[1][lane] = Shape::zigzag_back(static_cast<Word>(low[lane] >> 16));
      });
    } else if constexpr (sizeof(Word) == 4) {
      warp.each([&](int lane) { parts[0][lane] = Shape::zigzag_back(low[lane]); });
    } else {
      Lanes<Warp, std::uint32_t> high = planes[1];
#ifndef LANESCOPE_ON_DEVICE  // where a branch would keep the steps of groups apart
      if (width > kLanes)
#endif
        high = warp.transpose(high, turns);
      warp.each([&](int lane) {
        parts[0][lane] = Shape::zigzag_back(static_cast<Word>(high[lane]) << 32 | low[lane]);
      });
    }
    static_cast<void>(width);
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
