#pragma once

#include <cstdint>

#include "compress/warp.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

inline constexpr std::uint32_t kLeastCodeBits = 2, kMostCodeBits = 4;

/// The exponents that have a code of their own: those from `base` on, one less than codes of so
/// many bits can tell. The last code is the escape.
struct ExponentWindow {
  std::uint32_t width;  ///< Of a code, in bits.
  std::uint32_t base;
  LANESCOPE_LANES std::uint32_t escape() const { return (1U << width) - 1; }
};

/// The exponents of two values side by side.
struct ExponentPair {
  std::uint32_t first;
  std::uint32_t second;
};

/// Finds the window for exponents from 0 to `kExponents` - 1. A GPU loads the samples of
/// `kTogether` values at once.
template <std::uint32_t kExponents, std::uint32_t kTogether>
struct ExponentWindows {
  /// The window that makes a strip smallest, judged by the first 64 of each 256 values.
  /// `exponents_at(i)` tells the exponents of values i and i + 1, i being even, and `kExponents` of
  /// those that are not there; `whole_at(i)` the same of values that are all there. `counts` has
  /// room for one more than there are exponents.
  template <typename Warp, typename ExponentsAt, typename WholeAt>
  LANESCOPE_LANES static ExponentWindow best_window(Warp warp, std::uint32_t values,
                                                    ExponentsAt exponents_at, WholeAt whole_at,
                                                    std::uint32_t* counts) {
    warp.each([&](int lane) {
      for (auto i = static_cast<std::uint32_t>(lane); i <= kExponents; i += kLanes) counts[i] = 0;
    });
    warp.sync();
#ifdef LANESCOPE_ON_DEVICE
    std::uint32_t first = 0;
    for (; first + kAtOnce * kSampledEach <= values; first += kAtOnce * kSampledEach)
      count_samples<kAtOnce>(warp, first, whole_at, counts);
    for (; first < values; first += kSampledEach)
      count_samples<1>(warp, first, exponents_at, counts);
    warp.sync();
#else
    count_one_by_one(values, exponents_at, whole_at, counts);
#endif
    const std::uint32_t sampled = sum_counts(warp, counts);
    ExponentWindow best{kMostCodeBits, 0};
    std::uint32_t least = ~std::uint32_t{0};
    LANESCOPE_UNROLL
    for (std::uint32_t width = kLeastCodeBits; width <= kMostCodeBits; ++width) {
      std::uint32_t covered = 0;
      const ExponentWindow window{width, best_base(warp, counts, width, covered)};
      const std::uint32_t bits = sampled * width + (sampled - covered) * 8;
      if (bits < least) {
        least = bits;
        best = window;
      }
    }
    warp.sync();
    return best;
  }

 private:
  static constexpr std::uint32_t kSampledEach = 256;
  static constexpr std::uint32_t kAtOnce = kTogether / kSampledEach;  // Loads under way.

#ifndef LANESCOPE_ON_DEVICE
  /// Counts all samples. Neighbours are often the same, and a CPU waits for a count that it has
  /// just stored; so each has its own counts, in turns, which are added up.
  template <typename ExponentsAt, typename WholeAt>
  static void count_one_by_one(std::uint32_t values, ExponentsAt exponents_at, WholeAt whole_at,
                               std::uint32_t* counts) {
    std::uint32_t turns[4][kExponents + 1] = {};
    std::uint32_t first = 0;
    for (; first + kSampledEach <= values; first += kSampledEach)
      for (std::uint32_t i = first; i < first + 2 * kLanes; i += 4) {
        const ExponentPair one = whole_at(i), two = whole_at(i + 2);
        ++turns[0][one.first];
        ++turns[1][one.second];
        ++turns[2][two.first];
        ++turns[3][two.second];
      }
    if (first < values)
      for (std::uint32_t i = first; i < first + 2 * kLanes; i += 2) {
        const ExponentPair pair = exponents_at(i);
        ++turns[0][pair.first];
        ++turns[1][pair.second];
      }
    for (std::uint32_t i = 0; i <= kExponents; ++i)
      counts[i] = turns[0][i] + turns[1][i] + turns[2][i] + turns[3][i];
  }
#endif

  /// Counts the samples of `kParts` times 256 values from `first` on.
  template <std::uint32_t kParts, typename Warp, typename ExponentsAt>
  LANESCOPE_LANES static void count_samples(Warp warp, std::uint32_t first,
                                            ExponentsAt exponents_at, std::uint32_t* counts) {
    typename Warp::template Lanes<ExponentPair> found[kParts];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kParts; ++k)
      warp.each([&](int lane) {
        found[k][lane] =
            exponents_at(first + k * kSampledEach + 2 * static_cast<std::uint32_t>(lane));
      });
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kParts; ++k)
      warp.each([&](int lane) {
        warp.count_one(counts + found[k][lane].first);
        warp.count_one(counts + found[k][lane].second);
      });
  }

  /// Makes each count the sum of those before it, and returns that of all.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t sum_counts(Warp warp, std::uint32_t* counts) {
    constexpr std::uint32_t kEach = kExponents / kLanes;
    typename Warp::template Lanes<std::uint32_t> sums;
    warp.each([&](int lane) {
      sums[lane] = 0;
      LANESCOPE_UNROLL
      for (std::uint32_t i = 0; i < kEach; ++i)
        sums[lane] += counts[static_cast<std::uint32_t>(lane) * kEach + i];
    });
    std::uint32_t total = 0;
    const auto before = warp.sum_before(sums, total);
    warp.each([&](int lane) {
      std::uint32_t sum = before[lane];
      LANESCOPE_UNROLL
      for (std::uint32_t i = 0; i < kEach; ++i) {
        std::uint32_t& count = counts[static_cast<std::uint32_t>(lane) * kEach + i];
        const std::uint32_t one = count;
        count = sum;
        sum += one;
      }
      if (lane == kLanes - 1) counts[kExponents] = sum;
    });
    warp.sync();
    return total;
  }

  /// The lowest base whose window has most exponents, and how many. A window ends below the largest
  /// exponent, so that base and any code add up to one that exists.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t best_base(Warp warp, const std::uint32_t* before,
                                                 std::uint32_t width, std::uint32_t& covered) {
    const std::uint32_t size = (1U << width) - 1;
    typename Warp::template Lanes<std::uint32_t> best;
    warp.each([&](int lane) {
      best[lane] = 0;
      LANESCOPE_UNROLL
      for (std::uint32_t first = 0; first < kExponents; first += kLanes) {
        const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
        if (first + kLanes - 1 + size >= kExponents && i + size >= kExponents) continue;
        const std::uint32_t key = (before[i + size] - before[i]) << 8 | (0xFF - i);
        best[lane] = key > best[lane] ? key : best[lane];
      }
    });
    const std::uint32_t key = warp.most(best);
    covered = key >> 8;
    return 0xFF - (key & 0xFF);
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
