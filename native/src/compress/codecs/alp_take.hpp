#pragma once

#include <cstdint>
#include <cstring>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_fields.hpp"
#include "compress/codecs/alp_group.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Gives the values of a group of `AlpStrip`.
template <typename W>
struct AlpTake {
  using Word = W;
  using Numbers = Decimal<Word>;
  using Code = typename Numbers::Code;
  using Group = AlpGroup<Word>;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr std::uint32_t kRow = 8 * kLanes;  ///< Values that are given at a time.

  /// Gives a group whose first value is `begin` of the strip; false where places of exceptions are
  /// wrong.
  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool take(Warp warp, const std::uint8_t* in, std::uint32_t count,
                                   Word filler, const DecimalPower& power, const Group& group,
                                   Out& out, std::uint32_t begin) {
    const std::uint8_t* places = in + group.places_at(count);
    if (group.exceptions > 0 && !in_order(warp, places, group.exceptions, count)) return false;
    std::uint32_t taken = 0;
    for (std::uint32_t first = 0; first < count; first += kRow) {
      Word* to = out.at(begin + first);
      const std::uint32_t end = count - first < kRow ? count : first + kRow;
      if (group.as_they_are()) {
        copy_from(warp, in + first * kSize, end - first, to);
      } else {
        for (std::uint32_t i = first; i < end; i += kLanes)
          take_row(warp, in, i, count, filler, power, group, to + (i - first));
        if (taken < group.exceptions)
          taken = take_exceptions(warp, in, count, group, taken, first, end, to);
      }
      out.done(warp, begin + first + kRow);
    }
    return true;
  }

 private:
  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));

  template <typename Warp>
  LANESCOPE_LANES static void copy_from(Warp warp, const std::uint8_t* in, std::uint32_t count,
                                        Word* out) {
#ifdef LANESCOPE_ON_DEVICE
    warp.each([&](int lane) {
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        out[i] = load_alp_value<Word>(in + i * kSize);
    });
#else
    static_cast<void>(warp);
    std::memcpy(out, in, count * kSize);
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void take_row(Warp warp, const std::uint8_t* in, std::uint32_t first,
                                       std::uint32_t count, Word filler, const DecimalPower& power,
                                       const Group& group, Word* out) {
    const std::uint32_t row = first / kLanes;
    const auto low = group.lower().load(warp, in, row);
    Lanes<Warp, Word> values;
    if (group.width <= 32) {
      warp.each([&](int lane) {
        values[lane] = Numbers::value_of(static_cast<Code>(group.base + low[lane]), power);
      });
      if (group.fills != 0)
        warp.each([&](int lane) { values[lane] = low[lane] == 0 ? filler : values[lane]; });
    } else if constexpr (sizeof(Code) == 8) {
      const auto high = group.upper().load(warp, in + group.upper_at(count), row);
      warp.each([&](int lane) {
        const Code field = static_cast<Code>(high[lane]) << 32 | low[lane];
        const Word value = Numbers::value_of(group.base + field, power);
        values[lane] = group.fills != 0 && field == 0 ? filler : value;
      });
    }
#ifdef LANESCOPE_ON_DEVICE
    const bool all = true;  // A tile has room for those that are not there.
#else
    const bool all = first + kLanes <= count;
#endif
    if (all)
      warp.each([&](int lane) { out[lane] = values[lane]; });
    else
      warp.each([&](int lane) {
        if (first + static_cast<std::uint32_t>(lane) < count) out[lane] = values[lane];
      });
  }

  /// Whether places of exceptions rise, and lie in the group.
  template <typename Warp>
  LANESCOPE_LANES static bool in_order(Warp warp, const std::uint8_t* places,
                                       std::uint32_t exceptions, std::uint32_t count) {
    Lanes<Warp, std::uint32_t> wrong;
    warp.each([&](int lane) {
      wrong[lane] = 0;
      for (auto i = static_cast<std::uint32_t>(lane); i < exceptions; i += kLanes) {
        const std::uint32_t place = load_half(places + 2 * i);
        const bool rises = i == 0 || load_half(places + 2 * i - 2) < place;
        wrong[lane] |= rises && place < count ? 0 : 1;
      }
    });
    return warp.any_bits(wrong) == 0;
  }

  /// Puts the exceptions from number `taken` on whose places lie before `end` where they belong,
  /// `out` having those from `first` on, and returns the number of the next one.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t take_exceptions(Warp warp, const std::uint8_t* in,
                                                       std::uint32_t count, const Group& group,
                                                       std::uint32_t taken, std::uint32_t first,
                                                       std::uint32_t end, Word* out) {
    const std::uint8_t* places = in + group.places_at(count);
    const std::uint8_t* from = in + group.exceptions_at(count);
#ifdef LANESCOPE_ON_DEVICE
    warp.sync();
    for (std::uint32_t found = kLanes; found == kLanes && taken < group.exceptions;) {
      Lanes<Warp, std::uint32_t> here;
      warp.each([&](int lane) {
        const std::uint32_t i = taken + static_cast<std::uint32_t>(lane);
        const std::uint32_t place = i < group.exceptions ? load_half(places + 2 * i) : end;
        here[lane] = place < end ? 1 : 0;
        if (place < end) out[place - first] = load_alp_value<Word>(from + i * kSize);
      });
      found = bits_set(warp.lanes_with(here, 1));
      taken += found;
    }
#else
    static_cast<void>(warp);
    for (; taken < group.exceptions; ++taken) {
      const std::uint32_t place = load_half(places + 2 * taken);
      if (place >= end) break;
      out[place - first] = load_alp_value<Word>(from + taken * kSize);
    }
#endif
    return taken;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
