#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Where no power of ten makes a strip smaller.
inline constexpr int kNoDecimals = kMostDecimals + 1;

/// Finds the number of decimals of a strip by a sample of 32 values, spread over it.
template <typename Word>
struct AlpSearch {
  /// That with which the sample has least bits. More are tried until all of the sample come back,
  /// and fewer than 0 where integers do: each further one only adds bits, or takes some away.
  template <typename Warp>
  LANESCOPE_LANES static int best_decimals(Warp warp, const Word* in, std::uint32_t values) {
    Lanes<Warp, Word> sample;
    warp.each([&](int lane) {
      sample[lane] = in[(2 * static_cast<std::uint32_t>(lane) + 1) * values / (2 * kLanes)];
    });
    std::uint32_t least = kLanes * 8 * sizeof(Word);
    int best = kNoDecimals;
    const auto all_come_back = [&](int decimals) {
      const Cost cost = cost_of(warp, sample, power_of(decimals));
      if (cost.bits < least) {
        least = cost.bits;
        best = decimals;
      }
      return cost.exceptions == 0;
    };
    if (all_come_back(0)) {
      for (int decimals = -1; decimals >= kLeastDecimals; --decimals)
        if (!all_come_back(decimals)) break;
    } else {
      for (int decimals = 1; decimals <= kMostDecimals; ++decimals)
        if (all_come_back(decimals)) break;
    }
    return best;
  }

 private:
  using Code = typename Decimal<Word>::Code;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr std::uint32_t kExceptionBits = 16 + 8 * sizeof(Word);

  struct Cost {
    std::uint32_t bits, exceptions;
  };

  template <typename Warp>
  LANESCOPE_LANES static Cost cost_of(Warp warp, const Lanes<Warp, Word>& sample,
                                      const DecimalPower& power) {
    Lanes<Warp, Code> codes, negated;
    Lanes<Warp, std::uint32_t> good;
    warp.each([&](int lane) {
      const Code code = Decimal<Word>::code_of(sample[lane], power);
      codes[lane] = code;
      negated[lane] = static_cast<Code>(0 - code);
      good[lane] = code != 0 ? 1 : 0;
    });
    std::uint32_t all = 0;
    static_cast<void>(warp.template sum_bits_before<1>(good, all));
    const std::uint32_t exceptions = kLanes - all;
    if (all == 0) return {~std::uint32_t{0}, exceptions};
    const auto span = static_cast<Code>(warp.most(codes) + warp.most(negated));
    return {width_of(span) * kLanes + exceptions * kExceptionBits, exceptions};
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
