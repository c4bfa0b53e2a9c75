#pragma once

#include <cstdint>

#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// What the parts of `DeltaStrip` share: how many values go at a time, how the ones before predict
/// a value, and what a difference is.
template <typename W>
struct DeltaShape {
  using Word = W;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr bool kWide = sizeof(Word) == 8;  ///< Whether there are orders and halves.
  static constexpr std::uint32_t kMostOrder = kWide ? 3 : 1;
  static constexpr std::uint32_t kBits = 8 * sizeof(Word);
  static constexpr std::uint32_t kParts =
      sizeof(Word) == 2 ? 2 : 1;  // 32 x 16 bits twice: one transposition.
  static constexpr std::uint32_t kGroup = kLanes * kParts;
  static constexpr std::uint32_t kHeader = 4;
#ifdef LANESCOPE_ON_DEVICE
  static constexpr std::uint32_t kAtOnce = 4;  // Groups whose steps overlap; a word of widths.
#else
  static constexpr std::uint32_t kAtOnce = 1;
#endif
  static constexpr bool kAhead = kAtOnce > 1;  // Whether planes are loaded a step before.
  static constexpr std::uint32_t kWords = sizeof(Word) == 8 ? 2 : 1;  // Of a lane's planes.
  static constexpr std::uint32_t kRows = kAtOnce * kParts;

  struct Predictor {
    std::uint32_t lag;
    std::uint32_t turned;  // 0 or 1
    std::uint32_t order = 1;
    std::uint32_t halves = 0;  // 0 or 1

    LANESCOPE_LANES static Predictor of(std::uint32_t header) {
      return {header & 0xFF, header >> 8 & 0xFF, 1 + (header >> 16 & 0xFF), header >> 24};
    }
    LANESCOPE_LANES std::uint32_t header() const {
      return lag | turned << 8 | (order - 1) << 16 | halves << 24;
    }
    LANESCOPE_LANES bool possible(const Settings& settings) const {
      const bool old = !kWide || settings.version < 2;
      return lag >= 1 && lag <= kLanes && turned <= 1 && order <= (old ? 1 : kMostOrder) &&
             halves <= (old ? 0 : 1);
    }
  };

  LANESCOPE_LANES static constexpr std::uint32_t groups_of(std::uint32_t values) {
    return parts_of(values, kGroup);
  }

  LANESCOPE_LANES static std::uint32_t width_of(Word bits) {
    if constexpr (sizeof(Word) == 8) {
      const auto high = static_cast<std::uint32_t>(bits >> 32);
      return high != 0 ? 32 + bit_length(high) : bit_length(static_cast<std::uint32_t>(bits));
    } else {
      return bit_length(bits);
    }
  }

  /// `turned` is 0 or 1; so this is a rotation, which GPUs have.
  LANESCOPE_LANES static Word turn(Word value, std::uint32_t turned) {
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (sizeof(Word) >= 4) return rotated(value, turned);
#endif
    return static_cast<Word>((value << turned) | ((value >> (kBits - 1)) & turned));
  }

  LANESCOPE_LANES static Word turn_back(Word value, std::uint32_t turned) {
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (sizeof(Word) == 4) return rotated(value, 0 - turned);
#endif
    return static_cast<Word>((value >> turned) |
                             (static_cast<Word>(value & turned) << (kBits - 1)));
  }

#ifdef LANESCOPE_ON_DEVICE
  /// To the left, by less than 32 bits.
  __device__ static Word rotated(Word value, std::uint32_t bits) {
    const auto low = static_cast<std::uint32_t>(value);
    if constexpr (sizeof(Word) == 4) return __funnelshift_l(low, low, bits);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
    return static_cast<Word>(static_cast<std::uint64_t>(__funnelshift_l(low, high, bits)) << 32 |
                             __funnelshift_l(high, low, bits));
  }
#endif

  LANESCOPE_LANES static Word zigzag(Word difference) {
    const Word negative = static_cast<Word>(difference >> (kBits - 1));
    return static_cast<Word>(static_cast<Word>(difference << 1) ^ static_cast<Word>(0 - negative));
  }

  LANESCOPE_LANES static Word zigzag_back(Word code) {
    return static_cast<Word>((code >> 1) ^ static_cast<Word>(0 - static_cast<Word>(code & 1)));
  }

  /// 32 values from `first` on, 0 for those that are not there.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, Word> load_row(Warp warp, const Word* in, std::uint32_t first,
                                                    std::uint32_t values) {
    Lanes<Warp, Word> row;
    warp.each([&](int lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
      row[lane] = i < values ? in[i] : Word{0};
    });
    return row;
  }

  /// The difference of order `order` of `value(0)`; `value(n)` lies n places before it.
  template <std::uint32_t order, typename Value>
  LANESCOPE_LANES static Word difference(Value value, std::uint32_t lag) {
    const Word near = value(lag);
    Word found = static_cast<Word>(value(0) - near);
    if constexpr (order == 2) found = static_cast<Word>(found - (near - value(2 * lag)));
    if constexpr (order == 3) {
      const Word steps = static_cast<Word>(near - value(2 * lag));  // Taken three times.
      found = static_cast<Word>(value(0) - value(3 * lag) - steps - 2 * steps);
    }
    return found;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
