#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_fields.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

// Values and codes at a multiple of 4.

template <typename T>
LANESCOPE_LANES inline void store_alp_value(std::uint8_t* out, T value) {
  store_word(out, static_cast<std::uint32_t>(value));
  if constexpr (sizeof(T) == 8) store_word(out + 4, static_cast<std::uint32_t>(value >> 32));
}

template <typename T>
LANESCOPE_LANES inline T load_alp_value(const std::uint8_t* in) {
  if constexpr (sizeof(T) == 8) return static_cast<T>(load_word(in + 4)) << 32 | load_word(in);
  return static_cast<T>(load_word(in));
}

/// How a group of values is stored.
template <typename Word>
struct AlpGroup {
  using Code = typename Decimal<Word>::Code;
  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));
  static constexpr std::uint32_t kMost = 32 * kLanes;  ///< Values.
  static constexpr std::uint32_t kHeader = 4 + sizeof(Code);
  static constexpr std::uint32_t kAsTheyAre = 255;

  std::uint32_t width = kAsTheyAre;
  std::uint32_t fills = 0;  // 0 or 1
  std::uint32_t exceptions = 0;
  Code base = 0;

  LANESCOPE_LANES bool as_they_are() const { return width == kAsTheyAre; }
  LANESCOPE_LANES FieldRows lower() const { return {width < 32 ? width : 32}; }
  LANESCOPE_LANES FieldRows upper() const { return {width > 32 ? width - 32 : 0}; }

  LANESCOPE_LANES std::uint32_t upper_at(std::uint32_t count) const {
    return lower().bytes(parts_of(count, kLanes));
  }
  LANESCOPE_LANES std::uint32_t places_at(std::uint32_t count) const {
    return upper_at(count) + upper().bytes(parts_of(count, kLanes));
  }
  LANESCOPE_LANES std::uint32_t exceptions_at(std::uint32_t count) const {
    return places_at(count) + parts_of(exceptions, 2) * 4;
  }
  LANESCOPE_LANES std::uint32_t bytes(std::uint32_t count) const {
    return as_they_are() ? count * kSize : exceptions_at(count) + exceptions * kSize;
  }

  LANESCOPE_LANES bool possible(std::uint32_t count) const {
    if (as_they_are()) return fills == 0 && exceptions == 0 && base == 0;
    if constexpr (sizeof(Code) == 8)
      if (base >> Decimal<Word>::kMostWidth != 0) return false;
    return width <= Decimal<Word>::kMostWidth && fills <= 1 && exceptions <= count;
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_header(Warp warp, const AlpGroup& group, std::uint8_t* out) {
    warp.each([&](int lane) {
      if (lane != 0) return;
      store_word(out, group.width | group.fills << 8 | group.exceptions << 16);
      store_alp_value(out + 4, group.base);
    });
  }

  LANESCOPE_LANES static AlpGroup load_header(const std::uint8_t* in) {
    const std::uint32_t word = load_word(in);
    return {word & 0xFF, word >> 8 & 0xFF, word >> 16, load_alp_value<Code>(in + 4)};
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
