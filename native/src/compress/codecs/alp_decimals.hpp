#pragma once

#include <cstdint>
#include <cstring>

#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

// Each of these rounds once, to the nearest: on a GPU, too, where compilers would fuse them.

LANESCOPE_LANES inline double rounded_product(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

LANESCOPE_LANES inline double rounded_sum(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

template <typename To, typename From>
LANESCOPE_LANES inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// 10^k, and 10^-k: once as the nearest double, and once as the sum of two. `coarse` is rounded to
/// 13 bits, so that its products with integers of up to 40 bits are exact; `rest` is the nearest
/// double to what `coarse` lacks.
struct DecimalPower {
  double up, down, coarse, rest;
};

inline constexpr int kLeastDecimals = -6, kMostDecimals = 18;

LANESCOPE_LANES inline DecimalPower power_of(int decimals) {
  static constexpr DecimalPower kPowers[] = {
      {1e-6, 1e6, 0x1.e84p+19, 0x1p+6},
      {1e-5, 1e5, 0x1.86ap+16, 0},
      {1e-4, 1e4, 0x1.388p+13, 0},
      {1e-3, 1e3, 0x1.f4p+9, 0},
      {1e-2, 1e2, 0x1.9p+6, 0},
      {1e-1, 1e1, 0x1.4p+3, 0},
      {1e0, 1e0, 0x1p+0, 0},
      {1e1, 1e-1, 0x1.99ap-4, -0x1.999999999999ap-18},
      {1e2, 1e-2, 0x1.47bp-7, -0x1.eb851eb851eb8p-23},
      {1e3, 1e-3, 0x1.062p-10, 0x1.374bc6a7ef9dbp-24},
      {1e4, 1e-4, 0x1.a37p-14, -0x1.d14e3bcd35a86p-30},
      {1e5, 1e-5, 0x1.4f9p-17, -0x1.29dc725c3dee8p-31},
      {1e6, 1e-6, 0x1.0c7p-20, -0x1.0be9424e59296p-37},
      {1e7, 1e-7, 0x1.ad8p-24, -0x1.aca86a16f50f1p-41},
      {1e8, 1e-8, 0x1.57ap-27, -0x1.c4773dcf18818p-41},
      {1e9, 1e-9, 0x1.12ep-30, 0x1.7d04dad2965ccp-47},
      {1e10, 1e-10, 0x1.b7dp-34, -0x1.013142122a415p-49},
      {1e11, 1e-11, 0x1.5fdp-37, 0x1.ff85e592557f8p-51},
      {1e12, 1e-12, 0x1.198p-40, -0x1.99fb4857bb9ap-54},
      {1e13, 1e-13, 0x1.c26p-44, -0x1.ecbdb44bf1ecdp-59},
      {1e14, 1e-14, 0x1.685p-47, -0x1.91e57b5193f85p-61},
      {1e15, 1e-15, 0x1.204p-50, -0x1.418462a7a9938p-64},
      {1e16, 1e-16, 0x1.cd3p-54, -0x1.35a09dd90f526p-68},
      {1e17, 1e-17, 0x1.70fp-57, -0x1.5737256d2edbep-74},
      {1e18, 1e-18, 0x1.272p-60, 0x1.7747490eae83ap-74},
  };
  static_assert(sizeof kPowers / sizeof *kPowers == kMostDecimals - kLeastDecimals + 1);
  return kPowers[decimals - kLeastDecimals];
}

/// Bits of a number, up to the highest one that is set.
LANESCOPE_LANES inline std::uint32_t width_of(std::uint32_t number) {
  return bit_length(number);
}
LANESCOPE_LANES inline std::uint32_t width_of(std::uint64_t number) {
  const auto high = static_cast<std::uint32_t>(number >> 32);
  return high != 0 ? 32 + bit_length(high) : bit_length(static_cast<std::uint32_t>(number));
}

/// Values as integers, by a power of ten, and back. The sum of a value, scaled up, and a constant
/// `kZero` has a unit in the last place of 1: so it is rounded to an integer, and its lower bits
/// are that integer, in order and never negative. These are the code.
template <typename Word>
struct Decimal;

template <>
struct Decimal<std::uint64_t> {
  using Code = std::uint64_t;
  static constexpr double kZero = 0x1.8p52;
  static constexpr std::uint64_t kTop = std::uint64_t{0x433} << 52;  ///< Above the code's 52 bits.
  static constexpr std::uint32_t kMostWidth = 52;

  /// The lower half of the code of a value that comes back.
  LANESCOPE_LANES static std::uint32_t low_of(std::uint64_t value, const DecimalPower& power) {
    return static_cast<std::uint32_t>(same_bits<std::uint64_t>(sum_of(value, power)));
  }

  /// A code as what it exceeds that of -2^31 by. It is `narrow` where this has 32 bits.
  static constexpr Code kLeastNarrow = (Code{1} << 51) - (Code{1} << 31);
  struct Narrow {
    std::uint32_t number;
    bool good, narrow;
  };
  LANESCOPE_LANES static Narrow narrow_of(std::uint64_t value, const DecimalPower& power) {
    const double sum = sum_of(value, power);
    const auto bits = same_bits<std::uint64_t>(sum);
    const auto low = static_cast<std::uint32_t>(bits),
               high = static_cast<std::uint32_t>(bits >> 32);
    constexpr auto kHigh = static_cast<std::uint32_t>(kTop >> 32);
    return {low + (1U << 31), value_of(sum, power) == value && (high - kHigh) >> 20 == 0,
            high + (low >> 31) == kHigh + (1U << 19)};
  }

  /// 0 for a value that does not come back.
  LANESCOPE_LANES static Code code_of(std::uint64_t value, const DecimalPower& power) {
    const double sum = sum_of(value, power);
    const auto code = static_cast<Code>(same_bits<std::uint64_t>(sum) - kTop);
    const bool good = value_of(sum, power) == value && code >> 52 == 0;
    return good ? code : 0;
  }

  /// `code` may have 54 bits, whatever was damaged.
  LANESCOPE_LANES static std::uint64_t value_of(Code code, const DecimalPower& power) {
    return value_of(same_bits<double>(code + kTop), power);
  }

 private:
  LANESCOPE_LANES static double sum_of(std::uint64_t value, const DecimalPower& power) {
    return rounded_sum(rounded_product(same_bits<double>(value), power.up), kZero);
  }

  LANESCOPE_LANES static std::uint64_t value_of(double sum, const DecimalPower& power) {
    const double integer = rounded_sum(sum, -kZero);
    return same_bits<std::uint64_t>(
        rounded_sum(rounded_product(integer, power.coarse), rounded_product(integer, power.rest)));
  }
};

/// In doubles, too: floats would round seven digits away.
template <>
struct Decimal<std::uint32_t> {
  using Code = std::uint32_t;
  static constexpr double kZero = 0x1.000008p52;
  static constexpr std::uint64_t kTop = std::uint64_t{0x43300000} << 32;
  static constexpr std::uint32_t kMostWidth = 32;

  /// The code of a value that comes back.
  LANESCOPE_LANES static std::uint32_t low_of(std::uint32_t value, const DecimalPower& power) {
    return static_cast<std::uint32_t>(same_bits<std::uint64_t>(sum_of(value, power)));
  }

  LANESCOPE_LANES static Code code_of(std::uint32_t value, const DecimalPower& power) {
    const double sum = sum_of(value, power);
    const auto bits = same_bits<std::uint64_t>(sum);
    const bool good = value_of(sum, power) == value && bits >> 32 == kTop >> 32;
    return good ? static_cast<Code>(bits) : 0;
  }

  LANESCOPE_LANES static std::uint32_t value_of(Code code, const DecimalPower& power) {
    return value_of(same_bits<double>(kTop | code), power);
  }

 private:
  LANESCOPE_LANES static double sum_of(std::uint32_t value, const DecimalPower& power) {
    return rounded_sum(rounded_product(static_cast<double>(same_bits<float>(value)), power.up),
                       kZero);
  }

  LANESCOPE_LANES static std::uint32_t value_of(double sum, const DecimalPower& power) {
    const double integer = rounded_sum(sum, -kZero);
    return same_bits<std::uint32_t>(static_cast<float>(rounded_product(integer, power.down)));
  }
};

/// What is found of codes, but for those that are 0: the most, and the least, which is subtracted
/// from 0, so that it is what is most, too; both are 0 where there are none.
template <typename Code>
struct FoundCodes {
  Code most = 0, least = 0;
  std::uint32_t good = 0;  ///< How many.

  LANESCOPE_LANES Code base() const { return static_cast<Code>(0 - least); }
  LANESCOPE_LANES std::uint32_t width() const { return width_of(static_cast<Code>(most + least)); }
};

/// Finds that out, row by row.
template <typename Warp, typename Code>
class CodeFinder {
 public:
  using Row = typename Warp::template Lanes<Code>;

  LANESCOPE_LANES explicit CodeFinder(Warp warp) {
    warp.each([&](int lane) { most_[lane] = least_[lane] = 0, good_[lane] = 0; });
  }

  LANESCOPE_LANES void add(Warp warp, const Row& codes) {
    warp.each([&](int lane) {
      const Code code = codes[lane], negated = static_cast<Code>(0 - code);
      most_[lane] = code > most_[lane] ? code : most_[lane];
      least_[lane] = negated > least_[lane] ? negated : least_[lane];
      good_[lane] += code != 0 ? 1 : 0;
    });
  }

  LANESCOPE_LANES FoundCodes<Code> found(Warp warp) const {
    FoundCodes<Code> all;
    all.most = warp.most(most_);
    all.least = warp.most(least_);
    all.good = warp.sum_of_all(good_);
    return all;
  }

 private:
  Row most_, least_;
  typename Warp::template Lanes<std::uint32_t> good_;
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
