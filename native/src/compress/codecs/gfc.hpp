#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#if defined(__AVX512VBMI2__) && defined(__AVX512BW__) && defined(__AVX512CD__) && \
    !defined(__CUDACC__) && !defined(LANESCOPE_ON_DEVICE)
#include "compress/codecs/gfc_avx512.hpp"
#define LANESCOPE_GFC_VECTORS
#endif

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// A value's residual as GFC codes it: what stands in its nibble, and what follows.
template <typename Word>
struct GfcResidual {
  static constexpr int kBits = 8 * sizeof(Word);
  static constexpr bool kWide = sizeof(Word) == 8;

  /// Significant bytes of a magnitude as the nibble's low three bits tell them.
  LANESCOPE_LANES static constexpr std::uint32_t code_of(Word magnitude) {
    const std::uint32_t bytes = top_bit(magnitude | 1) / 8 + (magnitude != 0);
    return kWide ? bytes - (bytes > 2) : bytes;
  }

  /// Bytes that follow for a code; no more than a word has, whatever the code.
  LANESCOPE_LANES static constexpr std::uint32_t bytes_of(std::uint32_t code) {
    if constexpr (kWide) return code + (code > 1);
    return code < 4 ? code : 4;
  }

  /// Whether the encoder never makes this: more bytes than the magnitude needs, or a residual that
  /// has the other sign.
  LANESCOPE_LANES static constexpr bool wrong(std::uint32_t nibble, Word magnitude) {
    const Word sign = nibble >> 3;
    return code_of(magnitude) != (nibble & 7) || static_cast<Word>(magnitude - sign) >> (kBits - 1);
  }

 private:
  LANESCOPE_LANES static constexpr std::uint32_t top_bit(Word word) {
#ifdef LANESCOPE_ON_DEVICE
    return kWide ? 63 - __clzll(static_cast<long long>(word)) : 31 - __clz(static_cast<int>(word));
#else
    return kWide ? 63 ^ static_cast<std::uint32_t>(__builtin_clzll(word))
                 : 31 ^ static_cast<std::uint32_t>(__builtin_clz(static_cast<std::uint32_t>(word)));
#endif
  }
};

/// The bytes behind the nibbles. The host moves whole words where there is room for them; on a
/// GPU, other lanes' bytes follow, and words of shared memory have to be aligned.
template <typename Word>
struct GfcBytes {
  /// Puts `count` bytes to `out`. On the host it may write a whole word.
  LANESCOPE_LANES static void put(std::uint8_t* out, Word word, std::uint32_t count) {
#ifdef LANESCOPE_ON_DEVICE
#pragma unroll
    for (std::uint32_t i = 0; i < sizeof(Word); ++i)
      if (i < count) out[i] = static_cast<std::uint8_t>(word >> 8 * i);
#else
    (void)count;
    std::memcpy(out, &word, sizeof word);
#endif
  }

  /// Gets `count` bytes at `at` of `in`, which has `bytes` bytes, a multiple of 4.
  LANESCOPE_LANES static Word get(const std::uint8_t* in, std::uint32_t bytes, std::uint32_t at,
                                  std::uint32_t count) {
    Word word = 0;
#ifdef LANESCOPE_ON_DEVICE
    const auto* granules = reinterpret_cast<const std::uint32_t*>(in);
    const auto granule = [&](std::uint32_t i) { return 4 * i < bytes ? granules[i] : 0; };
    const std::uint32_t first = at / 4;
    const std::uint32_t middle = granule(first + 1);
    word = __funnelshift_r(granule(first), middle, 8 * at);
    if constexpr (sizeof(Word) == 8)
      word |= static_cast<Word>(__funnelshift_r(middle, granule(first + 2), 8 * at)) << 32;
#else
    if (bytes - at < sizeof word) {
      for (std::uint32_t i = 0; i < count; ++i) word |= static_cast<Word>(in[at + i]) << 8 * i;
      return word;
    }
    std::memcpy(&word, in + at, sizeof word);
#endif
    return word & low_bytes(count);
  }

 private:
  LANESCOPE_LANES static Word low_bytes(std::uint32_t count) {
#ifdef LANESCOPE_ON_DEVICE
    return count == 0 ? 0 : static_cast<Word>(~Word{0}) >> 8 * (sizeof(Word) - count);
#else
    static constexpr std::uint64_t kMasks[] = {
        0x0,          0xFF,           0xFFFF,           0xFFFFFF,          0xFFFFFFFF,
        0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF};
    return static_cast<Word>(kMasks[count]);
#endif
  }
};

#ifndef LANESCOPE_ON_DEVICE
/// What a nibble tells, as a decoder that takes values one by one looks it up.
template <typename Word>
struct GfcNibble {
  Word mask;          ///< Of the bytes that follow.
  Word least, range;  ///< The magnitudes that an encoder makes: from `least` to `least + range`.
  std::uint64_t bytes;

  static constexpr GfcNibble of(std::uint32_t nibble) {
    using Residual = GfcResidual<Word>;
    const std::uint32_t code = nibble & 7;
    const std::uint32_t bytes = Residual::bytes_of(code);
    const Word sign = nibble >> 3;
    const Word all = bytes == 0 ? 0 : ~Word{0} >> 8 * (sizeof(Word) - bytes);
    if (Residual::code_of(all) != code) return {0, 1, 0, bytes};  // An encoder makes none of these.
    Word least = sign;
    for (std::uint32_t more = 1; more < 8 * bytes && Residual::code_of(least) != code; ++more)
      least = Word{1} << (more - 1);
    return {all, least, (Word{1} << (Residual::kBits - 1)) - 1 + sign - least, bytes};
  }
};

template <typename Word>
struct GfcNibbles {
  GfcNibble<Word> of[16];

  constexpr GfcNibbles() : of{} {
    for (std::uint32_t nibble = 0; nibble < 16; ++nibble) of[nibble] = GfcNibble<Word>::of(nibble);
  }
};

template <typename Word>
inline constexpr GfcNibbles<Word> kGfcNibbles;
#endif

/// GFC (O'Neil and Burtscher, GPGPU-4, 2011): differences to values that lie a multiple of the
/// dimensionality back, without their leading zero bytes.
///
/// A strip is one chunk of the paper. The warp walks through it 32 values at a time, one a lane.
/// Lane l's value is predicted by that of lane 32 - dim + l mod dim of the 32 before, the first 32
/// by 0. A residual, modulo 2^64, is a sign and a magnitude; a nibble holds the sign above three
/// bits for the magnitude's significant bytes. There are nine numbers of these, so 2 is made 3.
/// Coded, 32 values are 16 bytes of nibbles, the even lane's in the low half, and then each lane's
/// significant bytes, lowest first, in the order of lanes; the next 32 follow at once, aligned to
/// nothing. The strip's end is filled up with zeros to 4 bytes. Values that the last 32 lack have
/// a residual of 0.
///
/// The paper codes 64-bit words only. For those of 32 bits the three bits hold 0 to 4 significant
/// bytes as they are, and 5 to 7 are not used; all else is the same.
template <typename Value>
struct GfcStrip {
  static_assert(std::is_same_v<Value, std::uint32_t> || std::is_same_v<Value, std::uint64_t>);
  using Word = Value;
  static constexpr std::uint32_t kRow = kLanes;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    return (values + kLanes - 1) / kLanes * kNibbles + values * sizeof(Word);
  }

  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    return bound(values);
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings& settings, std::uint8_t* out,
                                              std::uint32_t) {
    const auto source = sources(warp, settings.dimensionality);
    Row<Warp> before{}, ahead;
    load_ahead(warp, in, 0, values, ahead);
    std::uint32_t end = 0;
    for (std::uint32_t first = 0; first < values; first += kLanes) {
      if (values - first >= kLanes)
        end += encode_lanes<true>(warp, in, first, values, source, before, ahead, out + end);
      else
        end += encode_lanes<false>(warp, in, first, values, source, before, ahead, out + end);
    }
    const std::uint32_t padding = -end % 4;
    warp.each([&](int lane) {
      if (static_cast<std::uint32_t>(lane) < padding) out[end + lane] = 0;
    });
    warp.sync();
    return end + padding;
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings& settings, Out& out, std::uint32_t values) {
    const int dimensionality = settings.dimensionality;
    if (bytes % 4 != 0 || dimensionality < 1 || dimensionality > kLanes) return false;
    const auto source = sources(warp, dimensionality);
    typename Warp::template Lanes<Word> last{};
    typename Warp::template Lanes<std::uint32_t> wrong{};
    std::uint32_t at = 0;
    for (std::uint32_t first = 0; first < values; first += kLanes) {
      const bool fits =
          values - first >= kLanes
              ? decode_lanes<true>(warp, in, bytes, at, source, last, wrong, out.at(first), kLanes)
              : decode_lanes<false>(warp, in, bytes, at, source, last, wrong, out.at(first),
                                    values - first);
      if (!fits) return false;
      out.done(warp, first + kLanes);
    }
    if (bytes - at > 3) return false;
    warp.each([&](int lane) {
      if (static_cast<std::uint32_t>(lane) < bytes - at) wrong[lane] |= in[at + lane];
    });
    warp.sync();
    return warp.any_bits(wrong) == 0;
  }

 private:
  static constexpr std::uint32_t kNibbles = kLanes / 2;
  static constexpr int kCountBits = sizeof(Word) == 8 ? 4 : 3;  // Of 0 to 8, or 4, bytes.
  using Residual = GfcResidual<Word>;
  using Bytes = GfcBytes<Word>;

  /// The lane whose value of the 32 before predicts each lane's.
  template <typename Warp>
  LANESCOPE_LANES static typename Warp::template Lanes<int> sources(Warp warp, int dimensionality) {
    typename Warp::template Lanes<int> source;
    warp.each([&](int lane) { source[lane] = kLanes - dimensionality + lane % dimensionality; });
    return source;
  }

  template <typename Warp>
  using Row = typename Warp::template Lanes<Word>;

  /// On a GPU, loads the 32 values from `first` on: before they are used, since that takes long.
  template <typename Warp>
  LANESCOPE_LANES static void load_ahead([[maybe_unused]] Warp warp,
                                         [[maybe_unused]] const Word* in,
                                         [[maybe_unused]] std::uint32_t first,
                                         [[maybe_unused]] std::uint32_t values,
                                         [[maybe_unused]] Row<Warp>& ahead) {
#ifdef LANESCOPE_ON_DEVICE
    warp.each([&](int lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
      ahead[lane] = i < values ? in[i] : Word{0};
    });
#endif
  }

  /// Of the values from `first` on; 0 for those that are not there. On a GPU, `before` has the 32
  /// values before, and `ahead` these; then they have these and the next ones.
  template <bool all, typename Warp>
  LANESCOPE_LANES static Row<Warp> residuals(Warp warp, const Word* in, std::uint32_t first,
                                             std::uint32_t values,
                                             const typename Warp::template Lanes<int>& source,
                                             [[maybe_unused]] Row<Warp>& before,
                                             [[maybe_unused]] Row<Warp>& ahead) {
    Row<Warp> residual;
#ifdef LANESCOPE_ON_DEVICE
    const auto predicted = warp.from(before, source);
    before = ahead;
    if (all) load_ahead(warp, in, first + kLanes, values, ahead);
    warp.each([&](int lane) {
      residual[lane] = all || first + static_cast<std::uint32_t>(lane) < values
                           ? before[lane] - predicted[lane]
                           : Word{0};
    });
#else
    const Word* row = in + first;
    warp.each([&](int lane) {
      residual[lane] = 0;
      if (all || static_cast<std::uint32_t>(lane) < values - first)
        residual[lane] = row[lane] - (first == 0 ? 0 : row[source[lane] - kLanes]);
    });
#endif
    return residual;
  }

  /// Codes the values of up to 32 lanes; returns the number of bytes.
  template <bool all, typename Warp>
  LANESCOPE_LANES static std::uint32_t encode_lanes(
      Warp warp, const Word* in, std::uint32_t first, std::uint32_t values,
      const typename Warp::template Lanes<int>& source, Row<Warp>& before, Row<Warp>& ahead,
      std::uint8_t* out) {
#ifdef LANESCOPE_GFC_VECTORS
    if (all) {
      Row<Warp> predicted{};
      if (first > 0)
        warp.each([&](int lane) { predicted[lane] = in[first + source[lane] - kLanes]; });
      return GfcVectors<Word>::encode(in + first, predicted.at, out);
    }
#endif
    const auto residual = residuals<all>(warp, in, first, values, source, before, ahead);
    Row<Warp> magnitude;
    warp.each([&](int lane) {
      const Word sign = residual[lane] >> (Residual::kBits - 1);
      magnitude[lane] = (residual[lane] ^ (0 - sign)) + sign;
    });
#ifndef LANESCOPE_ON_DEVICE
    if (all) return put_row<Warp>(residual, magnitude, out);
#endif
    typename Warp::template Lanes<std::uint32_t> nibble, bytes;
    warp.each([&](int lane) {
      const std::uint32_t code = Residual::code_of(magnitude[lane]);
      nibble[lane] =
          static_cast<std::uint32_t>(residual[lane] >> (Residual::kBits - 1)) << 3 | code;
      bytes[lane] = Residual::bytes_of(code);
    });
    put_nibbles(warp, nibble, out);
    std::uint32_t total;
    const auto offset = warp.template sum_bits_before<kCountBits>(bytes, total);
    warp.each([&](int lane) {
      if (all || static_cast<std::uint32_t>(lane) < values - first)
        Bytes::put(out + kNibbles + offset[lane], magnitude[lane], bytes[lane]);
    });
    return kNibbles + total;
  }

#ifndef LANESCOPE_ON_DEVICE
  /// What `encode_lanes` does with 32 values, one after the other: a CPU so finds out where bytes
  /// go without storing it for each lane.
  template <typename Warp>
  static std::uint32_t put_row(const Row<Warp>& residual, const Row<Warp>& magnitude,
                               std::uint8_t* out) {
    std::uint32_t at = kNibbles;
    const auto put = [&](int lane) {
      const std::uint32_t code = Residual::code_of(magnitude[lane]);
      std::memcpy(out + at, &magnitude[lane], sizeof(Word));
      at += Residual::bytes_of(code);
      return static_cast<std::uint32_t>(residual[lane] >> (Residual::kBits - 1)) << 3 | code;
    };
    for (int lane = 0; lane < kLanes; lane += 2) {
      const std::uint32_t low = put(lane);
      out[lane / 2] = static_cast<std::uint8_t>(low | put(lane + 1) << 4);
    }
    return at;
  }

  /// What `decode_lanes` does with 32 values whose bytes, and a word behind them, are all there.
  template <typename Warp>
  static std::uint32_t get_row(const std::uint8_t* in, const Row<Warp>& predicted, Row<Warp>& last,
                               std::uint32_t& wrong, Word* out) {
#ifdef LANESCOPE_GFC_VECTORS
    return GfcVectors<Word>::decode(in, predicted.at, last.at, out, wrong);
#endif
    std::uint32_t at = kNibbles, bad = 0;
    const auto get = [&](int lane, std::uint32_t nibble) {
      const GfcNibble<Word>& means = kGfcNibbles<Word>.of[nibble];
      Word magnitude;
      std::memcpy(&magnitude, in + at, sizeof magnitude);
      magnitude &= means.mask;
      at += static_cast<std::uint32_t>(means.bytes);
      bad |= static_cast<Word>(magnitude - means.least) > means.range;
      const Word sign = Word{0} - (nibble >> 3);
      out[lane] = last[lane] = predicted[lane] + ((magnitude ^ sign) - sign);
    };
    for (int lane = 0; lane < kLanes; lane += 2) {
      const std::uint32_t both = in[lane / 2];
      get(lane, both & 15);
      get(lane + 1, both >> 4);
    }
    wrong |= bad;
    return at;
  }
#endif

  template <typename Warp>
  LANESCOPE_LANES static void put_nibbles(
      Warp warp, const typename Warp::template Lanes<std::uint32_t>& nibble, std::uint8_t* out) {
    typename Warp::template Lanes<int> next;
    warp.each([&](int lane) { next[lane] = lane ^ 1; });
    const auto other = warp.from(nibble, next);
    warp.each([&](int lane) {
      if (lane % 2 == 0) out[lane / 2] = static_cast<std::uint8_t>(nibble[lane] | other[lane] << 4);
    });
  }

  /// Decodes the values of up to 32 lanes from `at` on, which it moves behind them. False where
  /// they do not lie in `bytes`; what else is wrong leaves bits in `wrong`.
  template <bool all, typename Warp>
  LANESCOPE_LANES static bool decode_lanes(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                           std::uint32_t& at,
                                           const typename Warp::template Lanes<int>& source,
                                           typename Warp::template Lanes<Word>& last,
                                           typename Warp::template Lanes<std::uint32_t>& wrong,
                                           Word* out, std::uint32_t values) {
    if (bytes - at < kNibbles) return false;
#ifndef LANESCOPE_ON_DEVICE
    if (all && bytes - at >= kNibbles + (kLanes + 1) * sizeof(Word)) {
      at += get_row<Warp>(in + at, warp.from(last, source), last, wrong[0], out);
      return true;
    }
#endif
    typename Warp::template Lanes<std::uint32_t> nibble, count;
    warp.each([&](int lane) {
      const std::uint32_t pair = in[at + lane / 2];
      nibble[lane] = lane % 2 == 0 ? pair & 15 : pair >> 4;
      count[lane] = Residual::bytes_of(nibble[lane] & 7);
    });
    at += kNibbles;
    std::uint32_t total;
    const auto offset = warp.template sum_bits_before<kCountBits>(count, total);
    if (bytes - at < total) return false;
    const auto predicted = warp.from(last, source);
    typename Warp::template Lanes<Word> magnitude;
    warp.each([&](int lane) {
      magnitude[lane] = Bytes::get(in, bytes, at + offset[lane], count[lane]);
      wrong[lane] |= Residual::wrong(nibble[lane], magnitude[lane]);
    });
    warp.each([&](int lane) {
      const Word sign = nibble[lane] >> 3;
      last[lane] = predicted[lane] + ((magnitude[lane] ^ (0 - sign)) + sign);
    });
    warp.each([&](int lane) {
      if (all || static_cast<std::uint32_t>(lane) < values)
        out[lane] = last[lane];
      else
        wrong[lane] |= nibble[lane];
    });
    at += total;
    return true;
  }
};

template <>
struct CodecOf<Codec::gfc> : StripCodec {
  static constexpr int kAutoRank = 3;
  static constexpr int rank(Dtype dtype) { return dtype == Dtype::float64 ? 3 : 0; }
  static constexpr bool kOneCoding = true;

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (dtype == Dtype::float64) return go(GfcStrip<std::uint64_t>{}), true;
    if (dtype == Dtype::float32) return go(GfcStrip<std::uint32_t>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
