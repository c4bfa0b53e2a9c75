#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "lanescope/codecs.hpp"

namespace lanescope::compress {

// What values mean beyond their type, since version 4 of streams: name and number there. Codecs do
// not look at it. Complex numbers are two floating-point values, real and imaginary part, in a
// shape whose last side is 2; all others but plain values are bytes.
#define LANESCOPE_MEANINGS(MEANING) \
  MEANING(plain, 0)                 \
  MEANING(boolean, 1)               \
  MEANING(complex, 2)               \
  MEANING(float8_e4m3fn, 3)         \
  MEANING(float8_e5m2, 4)           \
  MEANING(float8_e4m3fnuz, 5)       \
  MEANING(float8_e5m2fnuz, 6)       \
  MEANING(float8_e8m0fnu, 7)

enum class Meaning : std::uint8_t {
#define LANESCOPE_ENUMERATOR(name, number) name = number,
  LANESCOPE_MEANINGS(LANESCOPE_ENUMERATOR)
#undef LANESCOPE_ENUMERATOR
};

struct MeaningEntry {
  const char* name;
  Meaning meaning;
};

inline constexpr MeaningEntry kMeanings[] = {
#define LANESCOPE_ENTRY(name, number) {#name, Meaning::name},
    LANESCOPE_MEANINGS(LANESCOPE_ENTRY)
#undef LANESCOPE_ENTRY
};

/// Whether an array of such values and sides can mean that; false for a number that is no meaning.
inline bool can_mean(Meaning meaning, compression::Dtype dtype,
                     std::span<const std::uint64_t> shape) {
  using compression::Dtype;
  if (meaning == Meaning::plain) return true;
  if (meaning == Meaning::complex)
    return (dtype == Dtype::float32 || dtype == Dtype::float64) && !shape.empty() &&
           shape.back() == 2;
  return static_cast<std::size_t>(meaning) < std::size(kMeanings) && dtype == Dtype::bytes;
}

}  // namespace lanescope::compress
