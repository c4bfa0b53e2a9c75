#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_group.hpp"
#include "compress/codecs/alp_put.hpp"
#include "compress/codecs/alp_search.hpp"
#include "compress/codecs/alp_take.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Floating-point values that were decimals, as integers, after Afroozeh, Kuffo and Boncz ("ALP:
/// Adaptive Lossless floating-Point Compression", SIGMOD 2024). A strip is
///
///   1 byte   decimals: the power of ten that makes integers of the values, + 8; zeros up to 4
///   1 value  filler: it stands for missing values, such as NaN
///   for each group of 1024 values
///     1 byte   width of its fields in bits, 0 to 52 (32 of fp32), or 255: values as they are
///     1 byte   1 where fields of 0 stand for the filler, else 0
///     2 bytes  exceptions: other values that the integers do not give back
///     8 bytes  base: the least code of the others, or one less where 0 is the filler; 4 of fp32
///   for each group its values as they are, or
///     - fields (`FieldRows`): code less base, 0 of what has no code; first the lower 32 bits of
///       all, then those above
///     - for each exception 2 bytes, its place in the group; zeros up to a multiple of 4
///     - the exceptions
///
/// A group is stored as it is where it does not get smaller. Unlike the paper's, an integer is
/// turned back by two products, with parts of the power of ten, which are added: nearly every
/// decimal comes back so, and one exponent says all.
template <typename W>
struct AlpStrip {
  using Word = W;
  static constexpr std::uint32_t kRow = AlpTake<Word>::kRow;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    return groups_at(values) + values * kSize;
  }

  /// All but the groups.
  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    return groups_at(values);
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out,
                                              std::uint32_t room) {
    const auto plan = AlpSearch<Word>::plan_of(warp, in, values);
    const DecimalPower power = power_of(plan.decimals);
    warp.each([&](int lane) {
      if (lane != 0) return;
      store_word(out, static_cast<std::uint32_t>(plan.decimals + kBias));
      store_alp_value(out + 4, plan.filler);
    });
    std::uint32_t at = groups_at(values);
    for (std::uint32_t first = 0; first < values; first += kGroup) {
      const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
      typename Put::template Coded<Warp> coded;
      const Group group =
          plan.none ? Group{} : Put::analyse(warp, in + first, count, plan, power, coded);
      Group::store_header(warp, group, out + header_at(first));
      const std::uint32_t bytes = group.bytes(count);
      if (at + bytes <= room)
        Put::put(warp, in + first, count, plan.filler, power, group, coded, out + at);
      at += bytes;
    }
    warp.sync();
    return at;
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings&, Out& out, std::uint32_t values) {
    std::uint32_t at = groups_at(values);
    if (bytes < at) return false;
    const std::uint32_t header = load_word(in);
    const int decimals = static_cast<int>(header & 0xFF) - kBias;
    if (header > 0xFF || decimals < kLeastDecimals || decimals > kMostDecimals) return false;
    const DecimalPower power = power_of(decimals);
    const Word filler = load_alp_value<Word>(in + 4);
    for (std::uint32_t first = 0; first < values; first += kGroup) {
      const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
      const Group group = Group::load_header(in + header_at(first));
      if (!group.possible(count) || bytes - at < group.bytes(count)) return false;
      if (!AlpTake<Word>::take(warp, in + at, count, filler, power, group, out, first))
        return false;
      at += group.bytes(count);
    }
    return at == bytes;
  }

 private:
  using Group = AlpGroup<Word>;
  using Put = AlpPut<Word>;

  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));
  static constexpr int kBias = 8;
  static constexpr std::uint32_t kHeader = 4 + kSize, kGroup = Group::kMost;

  LANESCOPE_LANES static constexpr std::uint32_t groups_at(std::uint32_t values) {
    return kHeader + parts_of(values, kGroup) * Group::kHeader;
  }

  LANESCOPE_LANES static constexpr std::uint32_t header_at(std::uint32_t first) {
    return kHeader + first / kGroup * Group::kHeader;
  }
};

template <>
struct CodecOf<Codec::alp> : StripCodec {
  static constexpr int kAutoRank = 3;
  static constexpr bool kNeedsLook = true;  // whether they were decimals no type tells

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (dtype == Dtype::float32) return go(AlpStrip<std::uint32_t>{}), true;
    if (dtype == Dtype::float64) return go(AlpStrip<std::uint64_t>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
