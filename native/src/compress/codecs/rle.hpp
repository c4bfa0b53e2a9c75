#pragma once

#include <cstdint>

#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Runs: a bit for each value, and the values that are not the one before. A strip is
///
///   for each 32 values a word of 32 bits: bit l tells whether value l is another one than that
///            before; before the first value is 0
///   the values that are, in order; zeros up to a multiple of 4
template <typename W>
struct RleStrip {
  using Word = W;
  static constexpr std::uint32_t kRow = 8 * kLanes;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    return least_room(values) + parts_of(values * kSize, 4) * 4;
  }

  /// All but the values.
  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    return parts_of(values, kLanes) * 4;
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out,
                                              std::uint32_t room) {
    std::uint32_t at = least_room(values);
    for (std::uint32_t first = 0; first < values; first += kLanes) {
      typename Warp::template Lanes<std::uint32_t> begins;
      warp.each([&](int lane) {
        const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
        const bool is_new = i < values && in[i] != (i == 0 ? 0 : in[i - 1]);
        begins[lane] = static_cast<std::uint32_t>(is_new) << lane;
      });
      const std::uint32_t mask = warp.any_bits(begins);
      warp.each([&](int lane) {
        if (lane == 0) store_word(out + first / kLanes * 4, mask);
        const std::uint32_t to = at + kSize * bits_set(mask & ((1U << lane) - 1));
        if (begins[lane] != 0 && to + kSize <= room)
          store(out + to, in[first + static_cast<std::uint32_t>(lane)]);
      });
      at += kSize * bits_set(mask);
    }
    const std::uint32_t end = parts_of(at, 4) * 4;
    warp.each([&](int lane) {
      const std::uint32_t i = at + static_cast<std::uint32_t>(lane);
      if (i < end && i < room) out[i] = 0;
    });
    warp.sync();
    return end;
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings&, Out& out, std::uint32_t values) {
    std::uint32_t at = least_room(values);
    if (at > bytes) return false;
    const std::uint32_t begin = at;
    for (std::uint32_t row = 0; row < values; row += kRow) {
      Word* to = out.at(row);
      for (std::uint32_t first = row; first < row + kRow && first < values; first += kLanes) {
        const std::uint32_t mask = load_word(in + first / kLanes * 4);
        const std::uint32_t there = values - first;
        if (there < kLanes && mask >> there != 0) return false;
        if (at + kSize * bits_set(mask) > bytes) return false;
        warp.each([&](int lane) {
          const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
          const std::uint32_t end = at + kSize * bits_set(mask & ((2U << lane) - 1));
          if (i < values) to[i - row] = end == begin ? Word{0} : load(in + end - kSize);
        });
        at += kSize * bits_set(mask);
      }
      out.done(warp, row + kRow);
    }
    if (parts_of(at, 4) * 4 != bytes) return false;
    while (at < bytes && in[at] == 0) ++at;
    return at == bytes;
  }

 private:
  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));

  LANESCOPE_LANES static void store(std::uint8_t* at, Word value) {
    for (std::uint32_t i = 0; i < kSize; ++i) at[i] = static_cast<std::uint8_t>(value >> 8 * i);
  }

  LANESCOPE_LANES static Word load(const std::uint8_t* at) {
    Word value = 0;
    for (std::uint32_t i = 0; i < kSize; ++i)
      value = static_cast<Word>(value | static_cast<Word>(at[i]) << 8 * i);
    return value;
  }
};

/// Taken where it is named: neither `auto` nor the rule tries it.
template <>
struct CodecOf<Codec::rle> : StripCodec {
  static constexpr int kAutoRank = 0;
  static constexpr int rank(Dtype) { return 0; }

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (bytes_of(dtype) == 1) return go(RleStrip<std::uint8_t>{}), true;
    if (bytes_of(dtype) == 2) return go(RleStrip<std::uint16_t>{}), true;
    if (bytes_of(dtype) == 4) return go(RleStrip<std::uint32_t>{}), true;
    return go(RleStrip<std::uint64_t>{}), true;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
