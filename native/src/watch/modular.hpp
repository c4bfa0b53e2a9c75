#pragma once

#include <cstddef>
#include <cstdint>

/// Exact arithmetic modulo the prime 2^61 - 1, in which sums of bits are learned.
namespace lanescope::watch::modular {

using Number = std::uint64_t;  ///< Below the prime.
__extension__ typedef unsigned __int128 Wide;

constexpr Number kPrime = (Number{1} << 61) - 1;

/// So many products of two numbers, and a number, add up below 2^128.
constexpr std::size_t kMostProducts = 32;

constexpr Number reduced(Wide number) noexcept {
  number = (number & kPrime) + (number >> 61);
  const auto once = static_cast<Number>(number & kPrime) + static_cast<Number>(number >> 61);
  return once >= kPrime ? once - kPrime : once;
}

constexpr Number times(Number a, Number b) noexcept {
  return reduced(Wide{a} * b);
}

constexpr Number plus(Number a, Number b) noexcept {
  const Number sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

constexpr Number minus(Number a, Number b) noexcept {
  return a >= b ? a - b : a + kPrime - b;
}

/// Fermat: a^(p - 2).
constexpr Number inverse(Number number) noexcept {
  Number result = 1;
  for (Number power = kPrime - 2; power > 0; power >>= 1, number = times(number, number))
    if ((power & 1) != 0) result = times(result, number);
  return result;
}

}  // namespace lanescope::watch::modular
