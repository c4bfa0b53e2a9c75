#pragma once

#include <cstdint>

#include "compress/blocks.hpp"
#include "compress/codecs/exponent_window.hpp"
#include "compress/nibbles.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

struct Float16 {
  using Word = std::uint16_t;
  static constexpr std::uint32_t kExponentBits = 5;
};

struct Bfloat16 {
  using Word = std::uint16_t;
  static constexpr std::uint32_t kExponentBits = 8;
};

struct Float32 {
  using Word = std::uint32_t;
  static constexpr std::uint32_t kExponentBits = 8;
};

/// Exponents in 2 to 4 bits. Most exponents of a strip lie close together: codes 0, 1, ... stand
/// for `base`, `base + 1`, ..., and the last code for an exponent that is stored in full, an
/// escape.
///
/// Values are taken 256 at a time, a slice, of which each lane has 8; four slices are a chunk. A
/// word of a lane is the lane's one of 32 words in a row. A strip is
///
///   1 byte   width of a code, in bits
///   1 byte   base
///   2 bytes  number of escapes
///   for each slice, words of sign and mantissa: 2 a lane of 16-bit values (of float16 only the
///            lower 8 of 11 bits), 6 a lane of float32
///   for each chunk, only of float16, 3 words a lane: the upper 3 of those 11 bits
///   for each chunk, `width` words a lane: the codes
///   1 byte   for each escape: the exponent; those of each chunk in order of lanes, of each lane in
///            order of its eight values and for each of these of the slices; zeros up to a multiple
///            of 4
///
/// What the last slice and chunk have too much is coded as `base` with a mantissa of 0.
/// Of 16-bit values, lane l has the pairs l, l + 32, l + 64 and l + 96 of a slice, and of 32-bit
/// ones l, l + 32, and so on: so lanes load and store words side by side. The words for signs,
/// mantissas and codes need no exchange between lanes.
template <typename Format>
struct ExponentStrip {
  using Word = typename Format::Word;
  static constexpr std::uint32_t kRow = 1024;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    const std::uint32_t most =
        codes_at(values) + chunks_of(values) * kMostCodeBits * kRowBytes + parts_of(values, 4) * 4;
    return most < kHistogramBytes ? kHistogramBytes : most;
  }

  /// All but escapes.
  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    const std::uint32_t codes = codes_at(values) + chunks_of(values) * kMostCodeBits * kRowBytes;
    return codes < kHistogramBytes ? kHistogramBytes : codes;
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out,
                                              std::uint32_t room) {
    // the counts lie where the strip comes to lie later
    const Window window = ExponentWindows<kExponents, kStripBytes / sizeof(Word)>::best_window(
        warp, values, [&](std::uint32_t i) { return exponents_at(in, i, values); },
        [&](std::uint32_t i) { return exponents_at(in, i); },
        reinterpret_cast<std::uint32_t*>(out));
    const std::uint32_t chunks = chunks_of(values);
    const std::uint32_t escapes_at = codes_at(values) + chunks * window.width * kRowBytes;
    std::uint32_t escapes = 0, chunk = 0;
#ifdef LANESCOPE_ON_DEVICE
    chunk = values / kChunk;
    escapes = take_whole_chunks(warp, in, values, window, out, room, escapes_at);
#endif
    for (; chunk < chunks; ++chunk) {
      Lanes<Warp, std::uint32_t> codes[kSlices];
      Lanes<Warp, std::uint32_t> tops[kSlices];
      LANESCOPE_UNROLL
      for (int slice = 0; slice < kSlices; ++slice)
        take_slice(warp, in, values, chunk * kSlices + static_cast<std::uint32_t>(slice), window,
                   out, codes[slice], tops[slice]);
      store_codes(warp, codes, tops, values, chunk, window, out);
      const std::uint32_t at = escapes_at + escapes;
      const Word* from = in + chunk * kChunk;
      escapes += store_escapes(warp, find_escapes(warp, codes, window.escape()), out + at,
                               at < room ? room - at : 0, [&](int lane) {
                                 return [from, lane](std::uint32_t bit) {
                                   return exponent_of(from[place_of_bit(bit, lane)]);
                                 };
                               });
    }
    const std::uint32_t end = parts_of(escapes_at + escapes, 4) * 4;
    warp.each([&](int lane) {
      if (lane == 0) store_word(out, window.width | window.base << 8 | escapes << 16);
      const std::uint32_t at = escapes_at + escapes + static_cast<std::uint32_t>(lane);
      if (at < end && end <= room) out[at] = 0;
    });
    warp.sync();
    return end;
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings&, Out& out, std::uint32_t values) {
    if (bytes < kHeader) return false;
    const std::uint32_t header = load_word(in);
    const Window window{header & 0xFF, header >> 8 & 0xFF};
    const std::uint32_t escapes = header >> 16;
    if (window.width < kLeastCodeBits || window.width > kMostCodeBits) return false;
    if (window.base + window.escape() >= kExponents) return false;
    const std::uint32_t chunks = chunks_of(values);
    const std::uint32_t escapes_at = codes_at(values) + chunks * window.width * kRowBytes;
    if (escapes > values || bytes != escapes_at + parts_of(escapes, 4) * 4) return false;

    std::uint32_t taken = 0;
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      Lanes<Warp, std::uint32_t> codes[kSlices];
      Lanes<Warp, std::uint32_t> tops[kSlices];
      load_nibbles(warp, in + codes_at(values) + chunk * window.width * kRowBytes, window.width,
                   codes);
      if constexpr (kTopBits)
        load_nibbles(warp, in + tops_at(values) + chunk * 3 * kRowBytes, 3, tops);
      Word* to = out.at(chunk * kChunk);
      LANESCOPE_UNROLL
      for (int slice = 0; slice < kSlices; ++slice)
        give_slice(warp, in, values, chunk * kSlices + static_cast<std::uint32_t>(slice), window,
                   codes[slice], tops[slice], to + static_cast<std::uint32_t>(slice) * kSlice);
      const std::uint8_t* from = in + escapes_at + taken;
      const std::uint32_t there = values - chunk * kChunk;
      if (!load_escapes(warp, from, escapes - taken, there, codes, window, to, taken)) return false;
      out.done(warp, (chunk + 1) * kChunk);
    }
    return taken == escapes;
  }

 private:
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  using Window = ExponentWindow;

  static constexpr bool kPairs = sizeof(Word) == 2;
  static constexpr std::uint32_t kExponentBits = Format::kExponentBits;
  static constexpr std::uint32_t kMantissaBits = 8 * sizeof(Word) - 1 - kExponentBits;
  static constexpr std::uint32_t kExponents = 1U << kExponentBits;
  static constexpr bool kTopBits = kPairs && kMantissaBits > 7;
  static constexpr std::uint32_t kSlice = 256;
  static constexpr int kSlices = 4;
  static constexpr std::uint32_t kChunk = kRow;
  static_assert(kChunk == kSlice * kSlices);
  static constexpr std::uint32_t kHeader = 4;
  static constexpr int kRestRows = kPairs ? 2 : 6;
  static constexpr std::uint32_t kSliceBytes = kRestRows * kRowBytes;
  static constexpr std::uint32_t kHistogramBytes = (kExponents + 1) * 4;
  static constexpr std::uint32_t kBoth = 0x00010001;  // Times x: x in both halves of a word.

  LANESCOPE_LANES static constexpr std::uint32_t chunks_of(std::uint32_t values) {
    return parts_of(values, kChunk);
  }

  LANESCOPE_LANES static constexpr std::uint32_t tops_at(std::uint32_t values) {
    return kHeader + parts_of(values, kSlice) * kSliceBytes;
  }

  LANESCOPE_LANES static constexpr std::uint32_t codes_at(std::uint32_t values) {
    return tops_at(values) + (kTopBits ? chunks_of(values) * 3 * kRowBytes : 0);
  }

  /// Where a lane's value `number` of a slice, 0 to 7, lies. Two that are four apart share a word
  /// of a lane, or would if values had 16 bits.
  LANESCOPE_LANES static constexpr std::uint32_t place_of(std::uint32_t number, int lane) {
    const auto l = static_cast<std::uint32_t>(lane);
    return kPairs ? 2 * kLanes * (number & 3) + 2 * l + (number >> 2) : kLanes * number + l;
  }

  LANESCOPE_LANES static std::uint32_t exponent_of(Word value) {
    return (value >> kMantissaBits) & (kExponents - 1);
  }

  /// Those of the values i and i + 1, i being even.
  LANESCOPE_LANES static ExponentPair exponents_at(const Word* in, std::uint32_t i) {
    if constexpr (kPairs) {
      const std::uint32_t pair = load_word(in + i);
      return {exponent_of(static_cast<Word>(pair)), exponent_of(static_cast<Word>(pair >> 16))};
    } else {
      return {exponent_of(in[i]), exponent_of(in[i + 1])};
    }
  }

  /// The same, and `kExponents` for those that are not there.
  LANESCOPE_LANES static ExponentPair exponents_at(const Word* in, std::uint32_t i,
                                                   std::uint32_t values) {
    if (i + 1 < values) return exponents_at(in, i);
    return {i < values ? exponent_of(in[i]) : kExponents, kExponents};
  }

  /// A lane's two values `number` and `number + 4` of a slice: as they lie there in a word, or each
  /// in one of its own.
  struct Two {
    std::uint32_t first;
    std::uint32_t second;  // Of 32-bit values only.
  };

  LANESCOPE_LANES static Two load_two(const Word* slice, std::uint32_t number, int lane) {
    const Word* at = slice + place_of(number, lane);
    if constexpr (kPairs)
      return {load_word(at), 0};
    else
      return {at[0], at[4 * kLanes]};
  }

  /// The same of a slice of which only `there` values are there.
  LANESCOPE_LANES static Two load_two(const Word* slice, std::uint32_t number, int lane,
                                      std::uint32_t there, std::uint32_t filler) {
    const std::uint32_t i = place_of(number, lane);
    const std::uint32_t j = place_of(number + 4, lane);
    const std::uint32_t first = i < there ? slice[i] : filler;
    const std::uint32_t second = j < there ? slice[j] : filler;
    if constexpr (kPairs)
      return {first | second << 16, 0};
    else
      return {first, second};
  }

  /// The two exponents, in halves of a word.
  LANESCOPE_LANES static std::uint32_t exponents_of(Two two) {
    if constexpr (kPairs)
      return (two.first >> kMantissaBits) & ((kExponents - 1) * kBoth);
    else
      return ((two.first >> 23) & 0xFF) | ((two.second >> 7) & 0xFF0000);
  }

  /// The codes of two exponents in halves of a word, `base` and `escape` being in both.
  LANESCOPE_LANES static std::uint32_t codes_of(std::uint32_t exponents, std::uint32_t base,
                                                std::uint32_t escape) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    // One instruction for both. What lies below the base comes round to a large number.
    const std::uint32_t less = ((0x10000 - (base & 0xFFFF)) & 0xFFFF) * kBoth;
    return __viaddmin_u16x2(exponents, less, escape);
#else
    // Each half is the distance from the base, raised by so much that its bit kExponentBits is 1
    // from 0 on, 0 below, and that nothing is borrowed from the other half.
    const std::uint32_t raised = exponents + 3 * kExponents * kBoth - base;
    const std::uint32_t outside = ((~raised | (raised - escape)) >> kExponentBits) & kBoth;
    return (raised | ((outside << 4) - outside)) & escape;
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void take_slice(Warp warp, const Word* in, std::uint32_t values,
                                         std::uint32_t slice, Window window, std::uint8_t* out,
                                         Lanes<Warp, std::uint32_t>& codes,
                                         Lanes<Warp, std::uint32_t>& tops) {
    const Word* from = in + slice * kSlice;
    std::uint8_t* to = out + kHeader + slice * kSliceBytes;
    const std::uint32_t base = window.base * kBoth;
    const std::uint32_t escape = window.escape() * kBoth;
    if ((slice + 1) * kSlice <= values) {
      warp.each([&](int lane) {
        const Two a = load_two(from, 0, lane), b = load_two(from, 1, lane);
        const Two c = load_two(from, 2, lane), d = load_two(from, 3, lane);
        take_eight(a, b, c, d, base, escape, lane, to, codes[lane], tops[lane]);
      });
    } else if (slice * kSlice < values) {
      const std::uint32_t there = values - slice * kSlice;
      const std::uint32_t filler = window.base << kMantissaBits;
      warp.each([&](int lane) {
        const Two a = load_two(from, 0, lane, there, filler);
        const Two b = load_two(from, 1, lane, there, filler);
        const Two c = load_two(from, 2, lane, there, filler);
        const Two d = load_two(from, 3, lane, there, filler);
        take_eight(a, b, c, d, base, escape, lane, to, codes[lane], tops[lane]);
      });
    } else {
      warp.each([&](int lane) { codes[lane] = tops[lane] = 0; });
    }
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_codes(Warp warp, const Lanes<Warp, std::uint32_t>* codes,
                                          const Lanes<Warp, std::uint32_t>* tops,
                                          std::uint32_t values, std::uint32_t chunk, Window window,
                                          std::uint8_t* out) {
    if constexpr (kTopBits)
      store_nibbles(warp, tops, 3, out + tops_at(values) + chunk * 3 * kRowBytes);
    store_nibbles(warp, codes, window.width,
                  out + codes_at(values) + chunk * window.width * kRowBytes);
  }

#ifdef LANESCOPE_ON_DEVICE
  /// A lane's values of a chunk, in registers of a GPU.
  struct HeldChunk {
    Two words[kSlices][4];
  };

  /// What a lane makes of a chunk. The exponents lie four to a word: of values v and v + 4 of
  /// slices s and s + 1, s being even, in row 2 v + s / 2.
  struct SplitChunk {
    std::uint32_t rests[kSlices][kRestRows];
    std::uint32_t exponents[8];
  };
  static_assert(kSlices * kRestRows >= 8);  // So exponents can lie where rests come to lie.

  /// The byte of `SplitChunk::exponents`, stored as rows, that has an exponent.
  LANESCOPE_LANES static std::uint32_t byte_of_bit(std::uint32_t bit) {
    return (bit / 2 & 7) * kRowBytes + (bit / 16 * 2 | (bit & 1));
  }

  LANESCOPE_LANES static void load_chunk(const Word* in, int lane, HeldChunk& held) {
    LANESCOPE_UNROLL
    for (std::uint32_t i = 0; i < 4 * kSlices; ++i)
      held.words[i / 4][i % 4] = load_two(in + i / 4 * kSlice, i % 4, lane);
  }

  /// Has a word made before what follows, whose loads so need no other registers than the values
  /// it is made of.
  LANESCOPE_LANES static void settle([[maybe_unused]] std::uint32_t& word) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(word));
#endif
  }

  LANESCOPE_LANES static void split_chunk(const HeldChunk& held, std::uint32_t* tops,
                                          SplitChunk& split) {
    LANESCOPE_UNROLL
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      const Two* of = held.words[slice];
      std::uint32_t* rests = split.rests[slice];
      tops[slice] = split_eight(of[0], of[1], of[2], of[3], [rests](int row, std::uint32_t word) {
        settle(rests[row] = word);
      });
    }
    LANESCOPE_UNROLL
    for (std::uint32_t row = 0; row < 8; ++row) {
      split.exponents[row] = exponents_of(held.words[row % 2 * 2][row / 2]) +
                             (exponents_of(held.words[row % 2 * 2 + 1][row / 2]) << 8);
      settle(split.exponents[row]);
    }
  }

  LANESCOPE_LANES static std::uint32_t codes_of(const Two* of, std::uint32_t base,
                                                std::uint32_t escape) {
    return codes_of(exponents_of(of[0]), base, escape) |
           codes_of(exponents_of(of[1]), base, escape) << 4 |
           codes_of(exponents_of(of[2]), base, escape) << 8 |
           codes_of(exponents_of(of[3]), base, escape) << 12;
  }

  /// Codes the chunks of which all values are there, and returns how many escapes they have. A
  /// chunk's values are loaded once, while the chunk before is finished.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t take_whole_chunks(Warp warp, const Word* in,
                                                         std::uint32_t values, Window window,
                                                         std::uint8_t* out, std::uint32_t room,
                                                         std::uint32_t escapes_at) {
    const std::uint32_t whole = values / kChunk;
    if (whole == 0) return 0;
    std::uint32_t escapes = 0;
    Lanes<Warp, HeldChunk> held;
    warp.each([&](int lane) { load_chunk(in, lane, held[lane]); });
    for (std::uint32_t chunk = 0; chunk < whole; ++chunk) {
      Lanes<Warp, std::uint32_t> codes[kSlices], tops[kSlices];
      Lanes<Warp, SplitChunk> split;
      warp.each([&](int lane) {
        std::uint32_t top[kSlices];
        split_chunk(held[lane], top, split[lane]);
        LANESCOPE_UNROLL
        for (int slice = 0; slice < kSlices; ++slice) {
          tops[slice][lane] = top[slice];
          codes[slice][lane] =
              codes_of(held[lane].words[slice], window.base * kBoth, window.escape() * kBoth);
        }
        if (chunk + 1 < whole) load_chunk(in + (chunk + 1) * kChunk, lane, held[lane]);
      });
      store_codes(warp, codes, tops, values, chunk, window, out);
      const std::uint32_t at = escapes_at + escapes;
      escapes += finish_chunk(warp, split, find_escapes(warp, codes, window.escape()),
                              out + kHeader + chunk * kSlices * kSliceBytes, out + at,
                              at < room ? room - at : 0);
    }
    return escapes;
  }

  /// Stores a chunk's escapes and rests. Which exponents are escapes is known when they are in
  /// registers, which cannot be chosen so: each lane puts its own where its rests come to lie.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t finish_chunk(Warp warp, const Lanes<Warp, SplitChunk>& split,
                                                    const Lanes<Warp, std::uint32_t>& found,
                                                    std::uint8_t* rests, std::uint8_t* out,
                                                    std::uint32_t room) {
    const std::uint32_t escapes = store_escapes(warp, found, out, room, [&](int lane) {
      LANESCOPE_UNROLL
      for (int row = 0; row < 8; ++row)
        store_word(rests + row * static_cast<int>(kRowBytes) + 4 * lane,
                   split[lane].exponents[row]);
      const std::uint8_t* own = rests + 4 * lane;
      return [own](std::uint32_t bit) { return own[byte_of_bit(bit)]; };
    });
    warp.each([&](int lane) {
      LANESCOPE_UNROLL
      for (int row = 0; row < kSlices * kRestRows; ++row)
        store_word(rests + row * static_cast<int>(kRowBytes) + 4 * lane,
                   split[lane].rests[row / kRestRows][row % kRestRows]);
    });
    return escapes;
  }
#endif

  /// Makes eight codes, and stores signs and mantissas.
  LANESCOPE_LANES static void take_eight(Two a, Two b, Two c, Two d, std::uint32_t base,
                                         std::uint32_t escape, int lane, std::uint8_t* to,
                                         std::uint32_t& codes, std::uint32_t& tops) {
    codes = codes_of(exponents_of(a), base, escape) | codes_of(exponents_of(b), base, escape) << 4 |
            codes_of(exponents_of(c), base, escape) << 8 |
            codes_of(exponents_of(d), base, escape) << 12;
    to += 4 * lane;
    tops = split_eight(a, b, c, d, [to](int row, std::uint32_t word) {
      store_word(to + row * static_cast<int>(kRowBytes), word);
    });
  }

  /// Calls `give(row, word)` for the words of signs and mantissas of eight values, and returns what
  /// they lack.
  template <typename Give>
  LANESCOPE_LANES static std::uint32_t split_eight(Two a, Two b, Two c, Two d, Give give) {
    if constexpr (kPairs) {
      const std::uint32_t p = rest_of(a.first), q = rest_of(b.first);
      const std::uint32_t r = rest_of(c.first), s = rest_of(d.first);
      constexpr std::uint32_t kLow = 0xFF * kBoth;
      give(0, (p & kLow) | (q & kLow) << 8);
      give(1, (r & kLow) | (s & kLow) << 8);
      if constexpr (kTopBits)
        return (p >> 8 & 7 * kBoth) | (q >> 8 & 7 * kBoth) << 4 | (r >> 8 & 7 * kBoth) << 8 |
               (s >> 8 & 7 * kBoth) << 12;
    } else {
      give_four(rest_of(a.first), rest_of(b.first), rest_of(c.first), rest_of(d.first), 0, give);
      give_four(rest_of(a.second), rest_of(b.second), rest_of(c.second), rest_of(d.second), 3,
                give);
    }
    return 0;
  }

  /// The sign on top of the mantissa; of a pair, in halves of a word.
  LANESCOPE_LANES static std::uint32_t rest_of(std::uint32_t word) {
    constexpr std::uint32_t kOnes = kPairs ? kBoth : 1;
    constexpr std::uint32_t kMantissa = ((1U << kMantissaBits) - 1) * kOnes;
    constexpr std::uint32_t kSign = (1U << kMantissaBits) * kOnes;
    return (word & kMantissa) | ((word >> kExponentBits) & kSign);
  }

  /// What `rest_of` and exponents, raised by `kMantissaBits`, were made of.
  LANESCOPE_LANES static std::uint32_t word_of(std::uint32_t rest, std::uint32_t exponents) {
    constexpr std::uint32_t kOnes = kPairs ? kBoth : 1;
    constexpr std::uint32_t kMantissa = ((1U << kMantissaBits) - 1) * kOnes;
    constexpr std::uint32_t kSign = (1U << kMantissaBits) * kOnes;
    return (rest & kMantissa) | (rest & kSign) << kExponentBits | exponents;
  }

  /// Four times 24 bits in three words.
  template <typename Give>
  LANESCOPE_LANES static void give_four(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                        std::uint32_t d, int row, Give give) {
    give(row, a | d << 24);
    give(row + 1, b | (d << 16 & 0xFF000000));
    give(row + 2, c | (d << 8 & 0xFF000000));
  }

  /// The lowest bit of each nibble that is an escape.
  LANESCOPE_LANES static std::uint32_t escapes_in(std::uint32_t codes, std::uint32_t escape) {
    std::uint32_t other = codes ^ escape * 0x11111111;
    other |= other >> 1;
    other |= other >> 2;
    return ~other & 0x11111111;
  }

  /// A lane's escapes in a chunk: bit 4 v + s for its value v of slice s.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, std::uint32_t> find_escapes(
      Warp warp, const Lanes<Warp, std::uint32_t>* codes, std::uint32_t escape) {
    Lanes<Warp, std::uint32_t> found;
    warp.each([&](int lane) {
      found[lane] = escapes_in(codes[0][lane], escape) | escapes_in(codes[1][lane], escape) << 1 |
                    escapes_in(codes[2][lane], escape) << 2 |
                    escapes_in(codes[3][lane], escape) << 3;
    });
    return found;
  }

  /// How many bits of each lane are set.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, std::uint32_t> count_bits(
      Warp warp, const Lanes<Warp, std::uint32_t>& bits) {
    Lanes<Warp, std::uint32_t> counts;
    warp.each([&](int lane) { counts[lane] = bits_set(bits[lane]); });
    return counts;
  }

  /// Where the value lies in its chunk that has such a bit of what `find_escapes` finds.
  LANESCOPE_LANES static std::uint32_t place_of_bit(std::uint32_t bit, int lane) {
    return bit % 4 * kSlice + place_of(bit / 4, lane);
  }

  /// Stores a chunk's exponents that have no code, if there is room, and returns their number.
  /// `exponents_of(lane)` gives a function that tells the exponent of a bit of `find_escapes`.
  template <typename Warp, typename ExponentsOf>
  LANESCOPE_LANES static std::uint32_t store_escapes(Warp warp,
                                                     const Lanes<Warp, std::uint32_t>& found,
                                                     std::uint8_t* out, std::uint32_t room,
                                                     ExponentsOf exponents_of) {
    std::uint32_t total = 0;
    const auto places = warp.sum_before(count_bits(warp, found), total);
    if (total == 0 || total > room) return total;
    warp.each([&](int lane) {
      const auto exponent_at = exponents_of(lane);
      std::uint8_t* to = out + places[lane];
      for (std::uint32_t left = found[lane]; left != 0; left &= left - 1)
        *to++ = static_cast<std::uint8_t>(exponent_at(lowest_bit(left)));
    });
    return total;
  }

  /// Puts a chunk's exponents that have no code into those values of it that are there, and adds
  /// their number to `taken`.
  /// False where there are more than the `left` ones that are stored.
  template <typename Warp>
  LANESCOPE_LANES static bool load_escapes(Warp warp, const std::uint8_t* in, std::uint32_t left,
                                           std::uint32_t there,
                                           const Lanes<Warp, std::uint32_t>* codes, Window window,
                                           Word* out, std::uint32_t& taken) {
    const auto found = find_escapes(warp, codes, window.escape());
    std::uint32_t total = 0;
    const auto places = warp.sum_before(count_bits(warp, found), total);
    if (total > left) return false;
    taken += total;
    if (total == 0) return true;
    constexpr std::uint32_t kExponentMask = (kExponents - 1) << kMantissaBits;
    warp.each([&](int lane) {
      const std::uint8_t* from = in + places[lane];
      for (std::uint32_t rest = found[lane]; rest != 0; rest &= rest - 1) {
        const std::uint32_t i = place_of_bit(lowest_bit(rest), lane);
        const std::uint32_t exponent = *from++ & (kExponents - 1);
        if (i < there)
          out[i] = static_cast<Word>((out[i] & ~kExponentMask) | exponent << kMantissaBits);
      }
    });
    return true;
  }

  template <typename Warp>
  LANESCOPE_LANES static void give_slice(Warp warp, const std::uint8_t* in, std::uint32_t values,
                                         std::uint32_t slice, Window window,
                                         const Lanes<Warp, std::uint32_t>& codes,
                                         const Lanes<Warp, std::uint32_t>& tops, Word* to) {
    if (slice * kSlice >= values) return;
    const std::uint8_t* from = in + kHeader + slice * kSliceBytes;
    const std::uint32_t there = values - slice * kSlice;
    if (there >= kSlice) {
      warp.each([&](int lane) {
        give_eight(from, lane, codes[lane], tops[lane], window.base,
                   [&](std::uint32_t number, std::uint32_t first, std::uint32_t second) {
                     Word* at = to + place_of(number, lane);
                     if constexpr (kPairs) {
                       store_word(at, first);
                     } else {
                       at[0] = first;
                       at[4 * kLanes] = second;
                     }
                   });
      });
    } else {
      warp.each([&](int lane) {
        give_eight(from, lane, codes[lane], tops[lane], window.base,
                   [&](std::uint32_t number, std::uint32_t first, std::uint32_t second) {
                     if constexpr (kPairs) second = first >> 16;
                     const std::uint32_t i = place_of(number, lane);
                     const std::uint32_t j = place_of(number + 4, lane);
                     if (i < there) to[i] = static_cast<Word>(first);
                     if (j < there) to[j] = static_cast<Word>(second);
                   });
      });
    }
  }

  /// Calls `give(number, first, second)` for values `number` and `number + 4`, 0 to 3.
  template <typename Give>
  LANESCOPE_LANES static void give_eight(const std::uint8_t* from, int lane, std::uint32_t codes,
                                         std::uint32_t tops, std::uint32_t base, Give give) {
    from += 4 * lane;
    const std::uint32_t bases = base * kBoth;
    if constexpr (kPairs) {
      LANESCOPE_UNROLL
      for (std::uint32_t number = 0; number < 4; ++number) {
        const std::uint32_t bytes = load_word(from + number / 2 * kRowBytes) >> (number % 2 * 8);
        std::uint32_t rest = bytes & 0xFF * kBoth;
        if constexpr (kTopBits) rest |= (tops >> 4 * number & 7 * kBoth) << 8;
        const std::uint32_t exponents = (codes >> 4 * number & 15 * kBoth) + bases;
        // An escape's exponent is put right later; here it may not spill.
        give(number, word_of(rest, exponents << kMantissaBits), 0);
      }
    } else {
      LANESCOPE_UNROLL
      for (std::uint32_t number = 0; number < 4; ++number) {
        const std::uint32_t exponents = (codes >> 4 * number & 15 * kBoth) + bases;
        const std::uint32_t first = rest_at(from, number);
        const std::uint32_t second = rest_at(from + 3 * kRowBytes, number);
        give(number, word_of(first, exponents << 23), word_of(second, exponents >> 16 << 23));
      }
    }
  }

  /// One of the 24 bits that `give_four` gave.
  LANESCOPE_LANES static std::uint32_t rest_at(const std::uint8_t* from, std::uint32_t number) {
    if (number < 3) return load_word(from + number * kRowBytes) & 0xFFFFFF;
    return load_word(from) >> 24 | (load_word(from + kRowBytes) >> 24) << 8 |
           (load_word(from + 2 * kRowBytes) >> 24) << 16;
  }
};

template <>
struct CodecOf<Codec::exponent> : StripCodec {
  static constexpr int kAutoRank = 4;
  static constexpr int rank(Dtype dtype) { return dtype == Dtype::float32 ? 3 : 1; }

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (dtype == Dtype::bfloat16) return go(ExponentStrip<Bfloat16>{}), true;
    if (dtype == Dtype::float16) return go(ExponentStrip<Float16>{}), true;
    if (dtype == Dtype::float32) return go(ExponentStrip<Float32>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
