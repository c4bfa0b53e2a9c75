#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"
#if defined(__AVX512DQ__) && !defined(LANESCOPE_ON_DEVICE)
#include "compress/codecs/alp_avx512.hpp"
#define LANESCOPE_ALP_VECTORS
#endif

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// How a strip is coded.
template <typename Word>
struct AlpPlan {
  int decimals = 0;
  bool none = true;    ///< No power of ten makes it smaller.
  Word filler = 0;     ///< What many values are that do not come back: NaN for missing ones.
  bool fills = false;  ///< Whether there is one.
};

/// Finds that out by a sample of 32 values, spread over the strip.
template <typename Word>
struct AlpSearch {
  /// The number of decimals with which the sample has least bits. More are tried until all of the
  /// sample come back, but for what further ones cannot pay for, and fewer than 0 where integers
  /// do: each further one only adds bits, or takes some away.
  template <typename Warp>
  LANESCOPE_LANES static AlpPlan<Word> plan_of(Warp warp, const Word* in, std::uint32_t values) {
    Lanes<Warp, Word> sample;
    Lanes<Warp, std::uint32_t> never;
    warp.each([&](int lane) {
      sample[lane] = in[place_of(static_cast<std::uint32_t>(lane), values)];
      never[lane] = never_comes_back(sample[lane]) ? 1 : 0;
    });
    const std::uint32_t hopeless = bits_set(warp.lanes_with(never, 1));
    std::uint32_t least = kLanes * 8 * sizeof(Word) + hopeless * kExceptionBits;
    AlpPlan<Word> plan;
    const auto enough_come_back = [&](int decimals) {
      const Cost cost = cost_of(warp, sample, power_of(decimals));
      if (cost.bits < least) {
        least = cost.bits;
        plan.decimals = decimals;
        plan.none = false;
      }
      return (cost.exceptions - hopeless) * kExceptionBits <= kBitsOfDecimal * kLanes;
    };
    if (enough_come_back(0)) {
      for (int decimals = -1; decimals >= kLeastDecimals; --decimals)
        if (!enough_come_back(decimals)) break;
    } else {
      for (int decimals = 1; decimals <= kMostDecimals; ++decimals)
        if (enough_come_back(decimals)) break;
    }
    if (!plan.none) find_filler(warp, sample, plan);
    return plan;
  }

 private:
  using Code = typename Decimal<Word>::Code;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr std::uint32_t kExceptionBits = 16 + 8 * sizeof(Word);

  static constexpr std::uint32_t kBitsOfDecimal = 3;

  /// One value of each 32nd of a strip. At distances that differ, since at the same one they may be
  /// all of one column of a table.
  LANESCOPE_LANES static std::uint32_t place_of(std::uint32_t number, std::uint32_t values) {
    const std::uint32_t first = number * values / kLanes;
    const std::uint32_t size = (number + 1) * values / kLanes - first;
    return size > 1 ? first + 37 * number % size : first;
  }

  /// Not finite, or -0.
  LANESCOPE_LANES static bool never_comes_back(Word value) {
    constexpr int kMantissa = sizeof(Word) == 8 ? 52 : 23;
    constexpr Word kSign = Word{1} << (8 * sizeof(Word) - 1);
    constexpr Word kInfinite = static_cast<Word>(kSign - (Word{1} << kMantissa));
    return (value & kInfinite) == kInfinite || value == kSign;
  }

  /// The one that most of the sample are, of those that do not come back; of several the first.
  /// One alone is a reason where it is none that more decimals bring back.
  template <typename Warp>
  LANESCOPE_LANES static void find_filler(Warp warp, const Lanes<Warp, Word>& sample,
                                          AlpPlan<Word>& plan) {
    const DecimalPower power = power_of(plan.decimals);
    Lanes<Warp, std::uint32_t> is;
    warp.each(
        [&](int lane) { is[lane] = Decimal<Word>::code_of(sample[lane], power) == 0 ? 1 : 0; });
    std::uint32_t most = 1;
    for (std::uint32_t left = warp.lanes_with(is, 1); left != 0;) {
      Lanes<Warp, int> source;
      warp.each([&](int lane) { source[lane] = static_cast<int>(lowest_bit(left)); });
      const Lanes<Warp, Word> other = warp.from(sample, source);
      Word one = 0;
      warp.each([&](int lane) {
        is[lane] = sample[lane] == other[lane] ? 1 : 0;
        one = other[lane];  // The same in all lanes.
      });
      const std::uint32_t same = warp.lanes_with(is, 1);
      left &= ~same;
      const std::uint32_t weight = bits_set(same) + (never_comes_back(one) ? 1 : 0);
      if (weight <= most) continue;
      most = weight;
      plan.filler = one;
      plan.fills = true;
    }
  }

  struct Cost {
    std::uint32_t bits, exceptions;
  };

  template <typename Warp>
  LANESCOPE_LANES static Cost cost_of(Warp warp, const Lanes<Warp, Word>& sample,
                                      const DecimalPower& power) {
#ifdef LANESCOPE_ALP_VECTORS
    Code codes[kLanes];
    const auto found =
        DecimalVectors<Word>::template codes_of<false>(sample.at, kLanes, power, codes);
    static_cast<void>(warp);
#else
    Lanes<Warp, Code> codes;
    warp.each([&](int lane) { codes[lane] = Decimal<Word>::code_of(sample[lane], power); });
    CodeFinder<Warp, Code> finder(warp);
    finder.add(warp, codes);
    const auto found = finder.found(warp);
#endif
    const std::uint32_t exceptions = kLanes - found.good;
    if (found.good == 0) return {~std::uint32_t{0}, exceptions};
    return {found.width() * kLanes + exceptions * kExceptionBits, exceptions};
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
