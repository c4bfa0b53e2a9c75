#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"
#if defined(__AVX512VBMI2__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    !defined(LANESCOPE_ON_DEVICE)
#include "compress/codecs/zvc_avx512.hpp"
#define LANESCOPE_ZVC_VECTORS
#endif

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Zero-value compression, as Rhu et al. have it between GPU and host ("Compressing DMA Engine",
/// HPCA 2018): a bit for each value, and the values that are not 0. Zero is what has no bit set, so
/// -0.0 is none.
///
/// A lane's unit is a word of 32 bits with four values of 8 bits, two of 16, or one, or a value of
/// 64 bits; 32 units are a group. A strip is
///
///   for each group, as many words of 32 bits as a unit has values: bit l of the first one tells
///            whether the first (lowest) value of lane l's unit is not 0, and so on
///   the values that are not 0: of each group first those of its first word, in order of lanes,
///   then of
///            the next; zeros up to a multiple of 4
template <typename W>
struct ZvcStrip {
  using Word = W;
  using Unit = std::conditional_t<sizeof(Word) == 8, std::uint64_t, std::uint32_t>;
  static constexpr std::uint32_t kParts = sizeof(Unit) / sizeof(Word);
  static constexpr std::uint32_t kGroup = kLanes * kParts;
  static constexpr std::uint32_t kRow = 8 * kGroup;
  static constexpr bool kInOrder = true;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    return values_at(values) + parts_of(values * kSize, 4) * 4;
  }

  /// All but the values.
  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    return values_at(values);
  }
  LANESCOPE_LANES static constexpr std::uint32_t head(std::uint32_t values) {
    return values_at(values);
  }

  template <typename Warp, typename In>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, In&& in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out,
                                              std::uint32_t room) {
    std::uint32_t at = values_at(values);
    if constexpr (std::is_pointer_v<std::remove_reference_t<In>>) {
      for (std::uint32_t first = 0; first < values; first += kAtOnce * kGroup)
        at += put(warp, in + first, first, values, out, at, room);
    } else {  // Differences, which are mostly zeros.
      LANESCOPE_NOT_UNROLLED
      for (std::uint32_t first = 0; first < values; first += kTurn) {
        const Word* row = in.row(first);
        if (first + kTurn <= values && put_few(warp, row, first, out, at, room)) continue;
        LANESCOPE_NOT_UNROLLED
        for (std::uint32_t i = 0; i < kTurn && first + i < values; i += kAtOnce * kGroup)
          at += put(warp, row + i, first + i, values, out, at, room);
      }
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
                                     const Settings& settings, Out& out, std::uint32_t values) {
    return decode(warp, CodedStrip{in, in, false}, bytes, settings, out, values);
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, CodedStrip in, std::uint32_t bytes, const Settings&,
                                     Out& out, std::uint32_t values) {
    std::uint32_t at = values_at(values);
    if (at > bytes) return false;
    constexpr std::uint32_t kStep = Out::kManyRows ? kTurn : kRow;
    for (std::uint32_t row = 0; row < values; row += kStep) {
      Word* to = out.at(row);
      bool taken = false;
      if constexpr (Out::kManyRows)  // Differences, which are mostly zeros.
        taken = row + kTurn <= values && take_few(warp, in, bytes, row, at, to);
      LANESCOPE_NOT_UNROLLED
      for (std::uint32_t i = 0; !taken && i < kStep && row + i < values; i += kAtOnce * kGroup)
        if (!take(warp, in, bytes, row + i, values, at, to + i)) return false;
      out.done(warp, row + kStep);
    }
    if (parts_of(at, 4) * 4 != bytes) return false;
    while (at < bytes && in.rest[at] == 0) ++at;
    return at == bytes;
  }

 private:
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));
#ifdef LANESCOPE_ON_DEVICE
  static constexpr std::uint32_t kAtOnce =
      kParts == 1 ? 4 : 8 / kParts;  // Groups whose steps overlap.
#else
  static constexpr std::uint32_t kAtOnce = 1;
#endif
  static constexpr std::uint32_t kMasks = kAtOnce * kParts;

  // Where most values are 0, a lane takes a mask each and goes through its bits, so that the others
  // cost nothing: so many groups at a time, of up to 2 KiB, all of whose values are there.
  static constexpr std::uint32_t kTurnGroups =
      kLanes / kParts < 2048 / (kGroup * kSize) ? kLanes / kParts : 2048 / (kGroup * kSize);
  static constexpr std::uint32_t kTurn = kTurnGroups * kGroup;

  LANESCOPE_LANES static constexpr std::uint32_t values_at(std::uint32_t values) {
    return parts_of(values, kGroup) * kParts * 4;
  }

  LANESCOPE_LANES static std::uint32_t mask_at(std::uint32_t first, std::uint32_t mask) {
    return (first / kLanes + mask) * 4;
  }

  /// Of a mask of the group at `first`, the bits of values that are there.
  LANESCOPE_LANES static std::uint32_t there(std::uint32_t first, std::uint32_t part,
                                             std::uint32_t values) {
    const std::uint32_t left = values > first + part ? parts_of(values - first - part, kParts) : 0;
    return left >= kLanes ? ~std::uint32_t{0} : (1U << left) - 1;
  }

#ifdef LANESCOPE_ON_DEVICE
  static constexpr std::uint32_t kTurnMasks = kTurnGroups * kParts;
  /// With more bits in a mask lanes would get in each other's way.
  static constexpr std::uint32_t kFew = 12;

  /// Stores masks and values of a turn from value `first` on, as `put` does, and moves `at` behind
  /// them; false where values are many.
  template <typename Warp>
  LANESCOPE_LANES static bool put_few(Warp warp, const Word* in, std::uint32_t first,
                                      std::uint8_t* out, std::uint32_t& at, std::uint32_t room) {
    const auto* units = reinterpret_cast<const Unit*>(in);
    std::uint8_t* masks_out = out + mask_at(first, 0);
    LANESCOPE_UNROLL
    for (std::uint32_t i = 0; i < kTurnMasks; i += 4) {
      std::uint32_t masks[4];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < 4; ++k) {
        Lanes<Warp, std::uint32_t> bits;
        warp.each([&](int lane) {
          const Unit unit = units[(i + k) / kParts * kLanes + static_cast<std::uint32_t>(lane)];
          bits[lane] = bits_of(value_of(unit, i + k));
        });
        masks[k] = warp.lanes_with(bits, ~std::uint32_t{0});
      }
      warp.each([&](int lane) {
        if (lane == 0) store_words(masks_out + 4 * i, masks);
      });
    }
    warp.sync();
    Lanes<Warp, std::uint32_t> mine, counts;
    warp.each([&](int lane) {
      const auto number = static_cast<std::uint32_t>(lane);
      mine[lane] = number < kTurnMasks ? load_word(masks_out + 4 * number) : 0;
      counts[lane] = bits_set(mine[lane]);
    });
    std::uint32_t total;
    const auto sums = warp.sum_before(counts, total);
    const std::uint32_t most = warp.most(counts);
    if (most > kFew) return false;
    const std::uint32_t begin = at;
    at += kSize * total;
    if (at > room) return true;
    warp.each([&](int lane) {
      const Word* from = in + turn_place(lane);
      std::uint8_t* to = out + begin + kSize * sums[lane];
      std::uint32_t bits = mine[lane];
      LANESCOPE_NOT_UNROLLED
      for (std::uint32_t n = 0; n < most; n += 2) {
        LANESCOPE_UNROLL
        for (std::uint32_t k = 0; k < 2; ++k, bits &= bits - 1)
          if (bits != 0) store_value(to + kSize * (n + k), from[lowest_bit(bits) * kParts]);
      }
    });
    return true;
  }

  /// Gives a turn from value `first` on as `take` does, into memory for all of it; false where
  /// values are many, or do not lie in `bytes`.
  template <typename Warp>
  LANESCOPE_LANES static bool take_few(Warp warp, CodedStrip in, std::uint32_t bytes,
                                       std::uint32_t first, std::uint32_t& at, Word* to) {
    // Zeros come before values are read, and others may still read those of the turn before.
    if (in.behind && in.rest + at < reinterpret_cast<std::uint8_t*>(to + 2 * kTurn)) return false;
    Lanes<Warp, std::uint32_t> mine, counts;
    warp.each([&](int lane) {
      const auto number = static_cast<std::uint32_t>(lane);
      mine[lane] = number < kTurnMasks ? load_word(in.head + mask_at(first, number)) : 0;
      counts[lane] = bits_set(mine[lane]);
    });
    std::uint32_t total;
    const auto sums = warp.sum_before(counts, total);
    const std::uint32_t most = warp.most(counts);
    const std::uint32_t begin = at;
    if (most > kFew || begin + kSize * total > bytes) return false;
    at += kSize * total;
    warp.each([&](int lane) {
      LANESCOPE_UNROLL
      for (std::uint32_t i = 0; i < kTurn * kSize; i += 16 * kLanes)
        store_zeros(reinterpret_cast<std::uint8_t*>(to) + i +
                    16 * static_cast<std::uint32_t>(lane));
    });
    warp.sync();
    warp.each([&](int lane) {
      Word* out = to + turn_place(lane);
      const std::uint8_t* from = in.rest + begin + kSize * sums[lane];
      std::uint32_t bits = mine[lane];
      LANESCOPE_NOT_UNROLLED
      for (std::uint32_t n = 0; n < most; n += 2) {
        LANESCOPE_UNROLL
        for (std::uint32_t k = 0; k < 2; ++k, bits &= bits - 1)
          if (bits != 0) out[lowest_bit(bits) * kParts] = load_value(from + kSize * (n + k));
      }
    });
    return true;
  }

  /// In a turn, where the first value of a lane's mask is.
  LANESCOPE_LANES static std::uint32_t turn_place(int lane) {
    const auto number = static_cast<std::uint32_t>(lane);
    return number / kParts * kGroup + number % kParts;
  }

  /// At a multiple of 16.
  LANESCOPE_LANES static void store_words(void* at, const std::uint32_t (&words)[4]) {
    *static_cast<uint4*>(at) = uint4{words[0], words[1], words[2], words[3]};
  }
  LANESCOPE_LANES static void store_zeros(void* at) {
    *static_cast<uint4*>(at) = uint4{0, 0, 0, 0};
  }

  /// Stores masks and values of `kAtOnce` groups from value `first` on, the values at `at` where
  /// there is room; returns how many bytes they have.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t put(Warp warp, const Word* in, std::uint32_t first,
                                           std::uint32_t values, std::uint8_t* out,
                                           std::uint32_t at, std::uint32_t room) {
    Lanes<Warp, Unit> units[kAtOnce];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      units[k] = load_units(warp, in + k * kGroup, first + k * kGroup, values);
    std::uint32_t masks[kMasks];
    LANESCOPE_UNROLL
    for (std::uint32_t i = 0; i < kMasks; ++i) {
      Lanes<Warp, std::uint32_t> bits;
      warp.each([&](int lane) { bits[lane] = bits_of(value_of(units[i / kParts][lane], i)); });
      masks[i] = warp.lanes_with(bits, ~std::uint32_t{0});
    }
    warp.each([&](int lane) {
      const auto number = static_cast<std::uint32_t>(lane);
      std::uint32_t mine = 0;
      LANESCOPE_UNROLL
      for (std::uint32_t i = 0; i < kMasks; ++i) mine = i == number ? masks[i] : mine;
      if (number < kMasks && mask_at(first, number) < values_at(values))
        store_word(out + mask_at(first, number), mine);
    });
    std::uint32_t used = 0;
    LANESCOPE_UNROLL
    for (std::uint32_t i = 0; i < kMasks; ++i) {
      warp.each([&](int lane) {
        const std::uint32_t to = at + used + kSize * before(masks[i], lane);
        if ((masks[i] >> lane & 1) != 0 && to + kSize <= room)
          store_value(out + to, value_of(units[i / kParts][lane], i));
      });
      used += kSize * bits_set(masks[i]);
    }
    return used;
  }

  /// Gives `kAtOnce` groups from value `first` on; `at` is where their values lie, and then those
  /// of the next. False where they do not lie in `bytes`.
  template <typename Warp>
  LANESCOPE_LANES static bool take(Warp warp, CodedStrip in, std::uint32_t bytes,
                                   std::uint32_t first, std::uint32_t values, std::uint32_t& at,
                                   Word* to) {
    std::uint32_t masks[kMasks], begin[kMasks];
    bool possible = true;
    LANESCOPE_UNROLL
    for (std::uint32_t i = 0; i < kMasks; ++i) {
      const std::uint32_t from = mask_at(first, i);
      masks[i] = from < values_at(values) ? load_word(in.head + from) : 0;
      possible =
          possible && (masks[i] & ~there(first + i / kParts * kGroup, i % kParts, values)) == 0;
      begin[i] = at;
      at += kSize * bits_set(masks[i]);
    }
    if (!possible || at > bytes) return false;
    Lanes<Warp, Unit> units[kAtOnce];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      warp.each([&](int lane) {
        Unit unit = 0;
        LANESCOPE_UNROLL
        for (std::uint32_t part = 0; part < kParts; ++part) {
          const std::uint32_t i = k * kParts + part;
          if ((masks[i] >> lane & 1) != 0)
            unit |=
                static_cast<Unit>(load_value(in.rest + begin[i] + kSize * before(masks[i], lane)))
                << 8 * kSize * part;
        }
        units[k][lane] = unit;
      });
    if (in.behind) warp.sync();  // Values may take the place of what was read.
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      warp.each([&](int lane) {
        reinterpret_cast<Unit*>(to)[k * kLanes + static_cast<std::uint32_t>(lane)] = units[k][lane];
      });
    if (in.behind) warp.sync();
    return true;
  }

  /// Units of a group, which begins with value `first`; 0 for values that are not there.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, Unit> load_units(Warp warp, const Word* in,
                                                      std::uint32_t first, std::uint32_t values) {
    Lanes<Warp, Unit> units;
    warp.each([&](int lane) {
      const std::uint32_t at = static_cast<std::uint32_t>(lane) * kParts;
      if (first + at + kParts <= values) {
        units[lane] = *reinterpret_cast<const Unit*>(in + at);
        return;
      }
      Unit unit = 0;
      for (std::uint32_t part = 0; part < kParts; ++part)
        if (first + at + part < values)
          unit |= static_cast<Unit>(in[at + part]) << 8 * kSize * part;
      units[lane] = unit;
    });
    return units;
  }

  LANESCOPE_LANES static Word value_of(Unit unit, std::uint32_t mask) {
    return static_cast<Word>(unit >> 8 * kSize * (mask % kParts));
  }

  /// Not 0 where the value is not.
  LANESCOPE_LANES static std::uint32_t bits_of(Word value) {
    if constexpr (kSize == 8)
      return static_cast<std::uint32_t>(value) | static_cast<std::uint32_t>(value >> 32);
    else
      return value;
  }

  /// Bits of lanes before this one.
  LANESCOPE_LANES static std::uint32_t before(std::uint32_t mask, int lane) {
    return bits_set(mask & ((1U << lane) - 1));
  }

  LANESCOPE_LANES static void store_value(std::uint8_t* at, Word value) {
    if constexpr (kSize == 1) *at = value;
    if constexpr (kSize == 2) store_half(at, value);
    if constexpr (kSize >= 4) store_word(at, static_cast<std::uint32_t>(value));
    if constexpr (kSize == 8) store_word(at + 4, static_cast<std::uint32_t>(value >> 32));
  }

  LANESCOPE_LANES static Word load_value(const std::uint8_t* at) {
    if constexpr (kSize == 1) return *at;
    if constexpr (kSize == 2) return static_cast<Word>(load_half(at));
    if constexpr (kSize == 4) return load_word(at);
    if constexpr (kSize == 8)
      return static_cast<Word>(load_word(at + 4)) << 32 | static_cast<Word>(load_word(at));
  }
#else
  /// Stores masks and values of a group, the values at `at` where there is room; returns how many
  /// bytes they have.
  static std::uint32_t put(HostWarp, const Word* in, std::uint32_t first, std::uint32_t values,
                           std::uint8_t* out, std::uint32_t at, std::uint32_t room) {
    const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
    Word padded[kGroup];
    const Word* from = in;
    if (count < kGroup) {
      std::memset(padded, 0, sizeof padded);
      std::memcpy(padded, from, count * kSize);
      from = padded;
    }
    std::uint32_t masks[kParts];
    std::uint32_t used;
    if (at + count * kSize <= room && count == kGroup) {
      used = put_all(from, out + at, masks);
    } else {
      std::uint8_t kept[kGroup * kSize];
      used = put_all(from, kept, masks);
      if (at < room) std::memcpy(out + at, kept, used < room - at ? used : room - at);
    }
    std::memcpy(out + mask_at(first, 0), masks, sizeof masks);
    return used;
  }

  /// There is room for all values of a group.
  static std::uint32_t put_all(const Word* in, std::uint8_t* out, std::uint32_t* masks) {
#ifdef LANESCOPE_ZVC_VECTORS
    return ZvcVectors<Word>::encode(in, out, masks);
#else
    std::uint8_t* to = out;
    for (std::uint32_t part = 0; part < kParts; ++part) {
      masks[part] = 0;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        const Word value = in[lane * kParts + part];
        std::memcpy(to, &value, kSize);
        to += value != 0 ? kSize : 0;
        masks[part] |= static_cast<std::uint32_t>(value != 0) << lane;
      }
    }
    return static_cast<std::uint32_t>(to - out);
#endif
  }

  /// Gives a group from value `first` on; `at` is where its values lie, and then those of the next.
  /// False where they do not lie in `bytes`.
  static bool take(HostWarp, CodedStrip in, std::uint32_t bytes, std::uint32_t first,
                   std::uint32_t values, std::uint32_t& at, Word* to) {
    std::uint32_t masks[kParts], used = 0;
    std::memcpy(masks, in.head + mask_at(first, 0), sizeof masks);
    for (std::uint32_t part = 0; part < kParts; ++part) {
      if ((masks[part] & ~there(first, part, values)) != 0) return false;
      used += kSize * bits_set(masks[part]);
    }
    if (at + used > bytes) return false;
    const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
#ifdef LANESCOPE_ZVC_VECTORS
    if (count == kGroup && bytes - at >= used + ZvcVectors<Word>::kReadsBeyond) {
      ZvcVectors<Word>::decode(in.rest + at, masks, to);
      at += used;
      return true;
    }
#endif
    std::memset(to, 0, count * kSize);
    for (std::uint32_t part = 0; part < kParts; ++part)
      for (std::uint32_t bits = masks[part]; bits != 0; bits &= bits - 1, at += kSize)
        std::memcpy(to + lowest_bit(bits) * kParts + part, in.rest + at, kSize);
    return true;
  }
#endif
};

template <>
struct CodecOf<Codec::zvc> : StripCodec {
  static constexpr int kAutoRank = 2;
  static constexpr int rank(Dtype) { return 4; }  // whether there are zeros no type tells

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (bytes_of(dtype) == 1) return go(ZvcStrip<std::uint8_t>{}), true;
    if (bytes_of(dtype) == 2) return go(ZvcStrip<std::uint16_t>{}), true;
    if (bytes_of(dtype) == 4) return go(ZvcStrip<std::uint32_t>{}), true;
    if (bytes_of(dtype) == 8) return go(ZvcStrip<std::uint64_t>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
