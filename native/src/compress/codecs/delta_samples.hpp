#pragma once

#include <cstdint>

#include "compress/codecs/delta_shape.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

#ifdef LANESCOPE_ON_DEVICE
namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// The sample of a strip of 64-bit values, where a GPU looks for a predictor: in shared memory 8
/// groups, each with the 32 values before it. Four lanes have a group: of its values, lane l of
/// these has each fourth one from l on. So lanes come together but once for all groups and 8
/// values each, and what lies a lag before is a load, whatever the lag.
template <typename W>
class DeltaSamples {
 public:
  using Word = W;
  using Shape = DeltaShape<Word>;

  static constexpr std::uint32_t kSamples = 8;
  /// With these all groups of the sample are whole, and none is the first one.
  static constexpr std::uint32_t kFewestGroups = 2 * kSamples + 1;
  /// Of a group and the values before it, and 4 more: so no two lanes' values share a bank.
  static constexpr std::uint32_t kStride = 2 * kLanes + 4;
  static constexpr std::uint32_t kRoom = kSamples * kStride * sizeof(Word);  ///< Bytes it takes.

  /// Brings the sample from `in` to `room`, which is aligned to 16 bytes.
  template <typename Warp>
  LANESCOPE_LANES DeltaSamples(Warp warp, const Word* in, std::uint32_t groups, std::uint8_t* room)
      : units_(reinterpret_cast<uint4*>(room)),
        mine_(reinterpret_cast<Word*>(room) + warp.lane / kLanesEach * kStride + kLanes +
              warp.lane % kLanesEach) {
    uint4 held[kSamples];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kSamples; ++k) {
      const std::uint32_t group = (2 * k + 1) * groups / (2 * kSamples);
      held[k] = reinterpret_cast<const uint4*>(in + (group - 1) * kLanes)[warp.lane];
    }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kSamples; ++k) units_[k * kStride / 2 + warp.lane] = held[k];
    look(warp);
  }

  /// Moves the signs of all values to the bottom.
  template <typename Warp>
  LANESCOPE_LANES void turn(Warp warp) {
    warp.sync();
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kSamples; ++k) {
      uint4& unit = units_[k * kStride / 2 + warp.lane];
      const Word low = Shape::turn(static_cast<Word>(unit.y) << 32 | unit.x, 1);
      const Word high = Shape::turn(static_cast<Word>(unit.w) << 32 | unit.z, 1);
      unit = {static_cast<std::uint32_t>(low),
              static_cast<std::uint32_t>(static_cast<std::uint64_t>(low) >> 32),
              static_cast<std::uint32_t>(high),
              static_cast<std::uint32_t>(static_cast<std::uint64_t>(high) >> 32)};
    }
    look(warp);
  }

  /// Widths of all groups with each lag, added up; in the upper 16 bits those of turned values.
  template <std::uint32_t count, typename Warp>
  LANESCOPE_LANES void widths(Warp warp, const std::uint32_t (&lags)[count],
                              std::uint32_t (&found)[count]) const {
    Bits plain[count], turned[count];
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kEach; ++j) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < count; ++k) {
        const Word earlier = (mine_ - lags[k])[kLanesEach * j];
        plain[k].add(static_cast<Word>(own_[j] - earlier));
        turned[k].add(static_cast<Word>(Shape::turn(own_[j], 1) - Shape::turn(earlier, 1)));
      }
    }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < count; ++k) found[k] = plain[k].width() | turned[k].width() << 16;
    most(warp, found);
    LANESCOPE_UNROLL
    for (auto& pair : found) pair = added_up(warp, pair);
  }

  /// Widths of halves with an order and each lag, added up; in the upper 16 bits those of groups.
  template <std::uint32_t order, std::uint32_t count, typename Warp>
  LANESCOPE_LANES void costs(Warp warp, const std::uint32_t (&lags)[count],
                             std::uint32_t (&found)[count]) const {
    Bits halves[count][2];
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kEach; ++j) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < count; ++k)
        halves[k][2 * j / kEach].add(Shape::template difference<order>(
            [&](std::uint32_t n) {
              return n == 0 ? own_[j] : (mine_ - n * lags[k])[kLanesEach * j];
            },
            1));
    }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < count; ++k)
      found[k] = halves[k][0].width() | halves[k][1].width() << 16;
    most(warp, found);
    LANESCOPE_UNROLL
    for (auto& both : found) {
      const std::uint32_t first = both & 0xFFFF, second = both >> 16;
      both = added_up(warp, (first + second) | (first > second ? first : second) << 16);
    }
  }

 private:
  static constexpr std::uint32_t kLanesEach = kLanes / kSamples;
  static constexpr std::uint32_t kEach = kLanes / kLanesEach;

  /// What tells of differences how wide the code of the widest one is.
  struct Bits {
    std::uint32_t low = 0, high = 0, signs = 0;

    LANESCOPE_LANES void add(Word difference) {
      const auto upper = static_cast<std::uint32_t>(static_cast<std::uint64_t>(difference) >> 32);
      const auto sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(upper) >> 31);
      low |= static_cast<std::uint32_t>(difference) ^ sign;
      high |= upper ^ sign;
      signs |= sign;
    }
    /// -1 becomes 1: one bit, though all of its bits are as the sign.
    LANESCOPE_LANES std::uint32_t width() const {
      const std::uint32_t bits = (high != 0 ? kLanes : 0) + bit_length(high != 0 ? high : low);
      return bits + ((low | high | signs) != 0 ? 1 : 0);
    }
  };

  template <typename Warp>
  LANESCOPE_LANES void look(Warp warp) {
    warp.sync();
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kEach; ++j) own_[j] = mine_[kLanesEach * j];
  }

  /// The largest ones of a group's lanes, of each 16 bits.
  template <std::uint32_t count, typename Warp>
  LANESCOPE_LANES static void most(Warp warp, std::uint32_t (&pairs)[count]) {
    LANESCOPE_UNROLL
    for (int apart = 1; apart < static_cast<int>(kLanesEach); apart *= 2) {
      LANESCOPE_UNROLL
      for (auto& pair : pairs) pair = Warp::most_of_pairs(pair, warp.across(pair, apart));
    }
  }

  /// The sum over groups, each of which all of its lanes have.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t added_up(Warp warp, std::uint32_t pair) {
    return warp.sum_of_all(typename Warp::template Lanes<std::uint32_t>{pair}) / kLanesEach;
  }

  uint4* units_;
  Word* mine_;  ///< Of this lane's the first one.
  Word own_[kEach];
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
#endif
