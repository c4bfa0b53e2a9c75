#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_fields.hpp"
#include "compress/codecs/alp_search.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Floating-point values that were decimals, as integers, after Afroozeh, Kuffo and Boncz ("ALP:
/// Adaptive Lossless floating-Point Compression", SIGMOD 2024). A strip is
///
///   1 byte   decimals: the power of ten that makes integers of the values, + 8; zeros up to 4
///   the filler, a value
///   for each group of 1024 values
///     1 byte   width of its fields in bits, 0 to 52 (32 of fp32), or 255: values as they are
///     1 byte   1 where fields of 0 stand for the filler, else 0
///     2 bytes  exceptions: other values that the integers do not give back
///     the least code of the others, the base: 8 bytes, of fp32 4
///   for each group either its values as they are, or
///     fields   code less base, of exceptions and the filler 0: first the lower 32 bits of all,
///     then those above for each exception 2 bytes, its place in the group; zeros up to a multiple
///     of 4 the exceptions
///
/// The filler is what stands for missing values, such as NaN: it takes a field alone. A group is
/// stored as it is where it does not get smaller. Unlike the paper's, an integer is
/// turned back by two products, with parts of the power of ten, which are added: nearly every
/// decimal comes back so, and the one exponent says all.
template <typename W>
struct AlpStrip {
  using Word = W;
  static constexpr std::uint32_t kRow = 8 * kLanes;

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
      store_value(out + 4, plan.filler);
    });
    std::uint32_t at = groups_at(values);
    for (std::uint32_t first = 0; first < values; first += kGroup) {
      const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
      Coded<Warp> coded;
      const Group group =
          plan.none ? Group{} : analyse(warp, in + first, count, plan, power, coded);
      store_header(warp, group, out + header_at(first));
      const std::uint32_t bytes = group.bytes(count);
      if (at + bytes <= room)
        put(warp, in + first, count, plan.filler, power, group, coded, out + at);
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
    const Word filler = load_value<Word>(in + 4);
    for (std::uint32_t first = 0; first < values; first += kGroup) {
      const std::uint32_t count = values - first < kGroup ? values - first : kGroup;
      const Group group = load_header(in + header_at(first));
      if (!group.possible(count) || bytes - at < group.bytes(count)) return false;
      if (!take(warp, in + at, count, filler, power, group, out, first)) return false;
      at += group.bytes(count);
    }
    return at == bytes;
  }

 private:
  using Numbers = Decimal<Word>;
  using Code = typename Numbers::Code;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));
  static constexpr int kBias = 8;
  static constexpr std::uint32_t kHeader = 4 + kSize, kGroupHeader = 4 + sizeof(Code);
  static constexpr std::uint32_t kRows = 32, kGroup = kRows * kLanes;
  static constexpr std::uint32_t kAsTheyAre = 255;

  LANESCOPE_LANES static constexpr std::uint32_t groups_at(std::uint32_t values) {
    return kHeader + parts_of(values, kGroup) * kGroupHeader;
  }

  LANESCOPE_LANES static constexpr std::uint32_t header_at(std::uint32_t first) {
    return kHeader + first / kGroup * kGroupHeader;
  }

  /// How a group is stored.
  struct Group {
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
        if (base >> Numbers::kMostWidth != 0) return false;
      return width <= Numbers::kMostWidth && fills <= 1 && exceptions <= count;
    }
  };

  template <typename Warp>
  LANESCOPE_LANES static void store_header(Warp warp, const Group& group, std::uint8_t* out) {
    warp.each([&](int lane) {
      if (lane != 0) return;
      store_word(out, group.width | group.fills << 8 | group.exceptions << 16);
      store_value(out + 4, group.base);
    });
  }

  LANESCOPE_LANES static Group load_header(const std::uint8_t* in) {
    const std::uint32_t word = load_word(in);
    return {word & 0xFF, word >> 8 & 0xFF, word >> 16, load_value<Code>(in + 4)};
  }

  template <typename T>
  LANESCOPE_LANES static void store_value(std::uint8_t* out, T value) {
    store_word(out, static_cast<std::uint32_t>(value));
    if constexpr (sizeof(T) == 8) store_word(out + 4, static_cast<std::uint32_t>(value >> 32));
  }

  template <typename T>
  LANESCOPE_LANES static T load_value(const std::uint8_t* in) {
    if constexpr (sizeof(T) == 8) return static_cast<T>(load_word(in + 4)) << 32 | load_word(in);
    return static_cast<T>(load_word(in));
  }

  /// What a CPU remembers of a group until it is stored: the codes of whole rows, 0 for exceptions
  /// and for what is not there. A GPU finds them once more.
  template <typename Warp>
  struct Coded {
#ifndef LANESCOPE_ON_DEVICE
    alignas(64) Code codes[kGroup];
#endif
  };

  /// How a group is stored best.
  template <typename Warp>
  LANESCOPE_LANES static Group analyse(Warp warp, const Word* in, std::uint32_t count,
                                       const AlpPlan<Word>& plan, const DecimalPower& power,
                                       Coded<Warp>& coded) {
    const FoundCodes<Code> found = find_codes(warp, in, count, power, coded);
    Group group{found.width(), 0, count - found.good, found.base()};
    if (group.exceptions > 0 && plan.fills) {
      const std::uint32_t filled = count_of(warp, in, count, plan.filler);
      group.exceptions -= filled;
      group.fills = filled > 0 ? 1 : 0;
      if (filled > 0 && found.good > 0) {  // So that no other field is 0.
        --group.base;
        group.width = width_of(static_cast<Code>(found.most - group.base));
      }
    }
    return group.bytes(count) < count * kSize ? group : Group{};
  }

  /// How many of the values are the filler.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t count_of(Warp warp, const Word* in, std::uint32_t count,
                                                Word filler) {
    std::uint32_t all = 0;
#ifdef LANESCOPE_ON_DEVICE
    Lanes<Warp, std::uint32_t> same;
    warp.each([&](int lane) {
      same[lane] = 0;
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        same[lane] += in[i] == filler ? 1 : 0;
    });
    static_cast<void>(warp.sum_before(same, all));
#else
    static_cast<void>(warp);
    for (std::uint32_t i = 0; i < count; ++i) all += in[i] == filler ? 1 : 0;
#endif
    return all;
  }

#ifdef LANESCOPE_ALP_VECTORS
  static FoundCodes<Code> find_codes(HostWarp, const Word* in, std::uint32_t count,
                                     const DecimalPower& power, Coded<HostWarp>& coded) {
    const std::uint32_t rest = count % kLanes, whole = count - rest;
    auto found = DecimalVectors<Word>::template codes_of<true>(in, whole, power, coded.codes);
    if (rest == 0) return found;
    Word row[kLanes];  // Its last value again is no other code.
    for (std::uint32_t i = 0; i < kLanes; ++i) row[i] = in[whole + (i < rest ? i : rest - 1)];
    const auto last =
        DecimalVectors<Word>::template codes_of<false>(row, kLanes, power, coded.codes + whole);
    found.most = last.most > found.most ? last.most : found.most;
    found.least = last.least > found.least ? last.least : found.least;
    for (std::uint32_t i = 0; i < rest; ++i) found.good += coded.codes[whole + i] != 0 ? 1 : 0;
    return found;
  }
#else
  template <typename Warp>
  LANESCOPE_LANES static FoundCodes<Code> find_codes(Warp warp, const Word* in, std::uint32_t count,
                                                     const DecimalPower& power,
                                                     [[maybe_unused]] Coded<Warp>& coded) {
    CodeFinder<Warp, Code> finder(warp);
    for (std::uint32_t first = 0; first < count; first += kLanes) {
      const Lanes<Warp, Code> codes = codes_of(warp, in, first, count, power);
      finder.add(warp, codes);
#ifndef LANESCOPE_ON_DEVICE
      warp.each([&](int lane) { coded.codes[first + lane] = codes[lane]; });
#endif
    }
    return finder.found(warp);
  }
#endif

  /// Codes of a row; 0 for values that are not there.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, Code> codes_of(Warp warp, const Word* in, std::uint32_t first,
                                                    std::uint32_t count,
                                                    const DecimalPower& power) {
    Lanes<Warp, Code> codes;
    if (first + kLanes <= count)
      warp.each([&](int lane) { codes[lane] = Numbers::code_of(in[first + lane], power); });
    else
      warp.each([&](int lane) {
        const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
        codes[lane] = i < count ? Numbers::code_of(in[i], power) : Code{0};
      });
    return codes;
  }
  /// Stores a group, which there is room for.
  template <typename Warp>
  LANESCOPE_LANES static void put(Warp warp, const Word* in, std::uint32_t count, Word filler,
                                  const DecimalPower& power, const Group& group,
                                  [[maybe_unused]] Coded<Warp>& coded, std::uint8_t* out) {
    if (group.as_they_are()) return copy_to(warp, in, count, out);
#ifndef LANESCOPE_ON_DEVICE
    static_cast<void>(power);
    put_exceptions(in, count, filler, group, coded.codes, out);
#endif
    typename FieldRows::Writer<Warp> lower(group.lower().width, out);
    typename FieldRows::Writer<Warp> upper(group.upper().width, out + group.upper_at(count));
    [[maybe_unused]] std::uint32_t exceptions = 0;
    for (std::uint32_t first = 0; first < count; first += kLanes) {
#ifdef LANESCOPE_ON_DEVICE
      Lanes<Warp, Code> codes = codes_of(warp, in, first, count, power);
      if (group.exceptions > 0)
        exceptions += put_exceptions(warp, in, first, count, filler, group, codes, exceptions, out);
      warp.each([&](int lane) { codes[lane] = codes[lane] == 0 ? group.base : codes[lane]; });
#else
      const Code* codes = coded.codes + first;
#endif
      Lanes<Warp, std::uint32_t> fields;
      warp.each(
          [&](int lane) { fields[lane] = static_cast<std::uint32_t>(codes[lane] - group.base); });
      lower.put(warp, fields);
      if constexpr (sizeof(Code) == 8)
        if (group.width > 32) {
          warp.each([&](int lane) {
            fields[lane] = static_cast<std::uint32_t>((codes[lane] - group.base) >> 32);
          });
          upper.put(warp, fields);
        }
    }
    lower.finish(warp);
    upper.finish(warp);
  }

#ifdef LANESCOPE_ON_DEVICE
  /// Stores those of a row behind so many others, and returns how many there are.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t put_exceptions(Warp warp, const Word* in,
                                                      std::uint32_t first, std::uint32_t count,
                                                      Word filler, const Group& group,
                                                      const Lanes<Warp, Code>& codes,
                                                      std::uint32_t before, std::uint8_t* out) {
    Lanes<Warp, std::uint32_t> is;
    warp.each([&](int lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
      const bool one = codes[lane] == 0 && i < count && (group.fills == 0 || in[i] != filler);
      is[lane] = one ? 1 : 0;
    });
    const std::uint32_t lanes = warp.lanes_with(is, 1);
    warp.each([&](int lane) {
      if (is[lane] == 0) return;
      const std::uint32_t number = before + bits_set(lanes & ((1U << lane) - 1));
      const std::uint32_t place = first + static_cast<std::uint32_t>(lane);
      store_half(out + group.places_at(count) + 2 * number, place);
      if (number + 1 == group.exceptions && group.exceptions % 2 != 0)
        store_half(out + group.places_at(count) + 2 * group.exceptions, 0);
      store_value(out + group.exceptions_at(count) + number * kSize, in[place]);
    });
    return bits_set(lanes);
  }
#else
  /// Stores them, and gives them and what is not there the least code.
  static void put_exceptions(const Word* in, std::uint32_t count, Word filler, const Group& group,
                             Code* codes, std::uint8_t* out) {
    for (std::uint32_t i = count; i < parts_of(count, kLanes) * kLanes; ++i) codes[i] = group.base;
    if (group.exceptions == 0 && group.fills == 0) return;
    std::uint8_t* places = out + group.places_at(count);
    std::uint8_t* to = out + group.exceptions_at(count);
    if (group.exceptions % 2 != 0) store_half(to - 2, 0);
    for (std::uint32_t first = 0; first < count; first += kLanes)
      for (std::uint32_t lanes = zeros(codes + first); lanes != 0; lanes &= lanes - 1) {
        const std::uint32_t i = first + lowest_bit(lanes);
        codes[i] = group.base;
        if (group.fills != 0 && in[i] == filler) continue;
        store_half(places, i);
        store_value(to, in[i]);
        places += 2;
        to += kSize;
      }
  }

  /// Bit l tells whether code l of a row is 0.
  static std::uint32_t zeros(const Code* row) {
#ifdef LANESCOPE_ALP_VECTORS
    return DecimalVectors<Word>::zeros(row);
#else
    std::uint32_t found = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      found |= static_cast<std::uint32_t>(row[lane] == 0) << lane;
    return found;
#endif
  }
#endif

  template <typename Warp>
  LANESCOPE_LANES static void copy_to(Warp warp, const Word* in, std::uint32_t count,
                                      std::uint8_t* out) {
#ifdef LANESCOPE_ON_DEVICE
    warp.each([&](int lane) {
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        store_value(out + i * kSize, in[i]);
    });
#else
    static_cast<void>(warp);
    std::memcpy(out, in, count * kSize);
#endif
  }

  /// Gives a group whose first value is `begin`; false where places of exceptions are wrong.
  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool take(Warp warp, const std::uint8_t* in, std::uint32_t count,
                                   Word filler, const DecimalPower& power, const Group& group,
                                   Out& out, std::uint32_t begin) {
    const std::uint8_t* places = in + group.places_at(count);
    if (group.exceptions > 0 && !in_order(warp, places, group.exceptions, count)) return false;
    std::uint32_t taken = 0;
    for (std::uint32_t first = 0; first < count; first += kRow) {
      Word* to = out.at(begin + first);
      const std::uint32_t end = count - first < kRow ? count : first + kRow;
      if (group.as_they_are()) {
        copy_from(warp, in + first * kSize, end - first, to);
      } else {
        for (std::uint32_t i = first; i < end; i += kLanes)
          take_row(warp, in, i, count, filler, power, group, to + (i - first));
        if (taken < group.exceptions)
          taken = take_exceptions(warp, in, count, group, taken, first, end, to);
      }
      out.done(warp, begin + first + kRow);
    }
    return true;
  }

  template <typename Warp>
  LANESCOPE_LANES static void copy_from(Warp warp, const std::uint8_t* in, std::uint32_t count,
                                        Word* out) {
#ifdef LANESCOPE_ON_DEVICE
    warp.each([&](int lane) {
      for (auto i = static_cast<std::uint32_t>(lane); i < count; i += kLanes)
        out[i] = load_value<Word>(in + i * kSize);
    });
#else
    static_cast<void>(warp);
    std::memcpy(out, in, count * kSize);
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void take_row(Warp warp, const std::uint8_t* in, std::uint32_t first,
                                       std::uint32_t count, Word filler, const DecimalPower& power,
                                       const Group& group, Word* out) {
    const std::uint32_t row = first / kLanes;
    const auto low = group.lower().load(warp, in, row);
    Lanes<Warp, Word> values;
    if (group.width <= 32) {
      warp.each([&](int lane) {
        values[lane] = Numbers::value_of(static_cast<Code>(group.base + low[lane]), power);
      });
      if (group.fills != 0)
        warp.each([&](int lane) { values[lane] = low[lane] == 0 ? filler : values[lane]; });
    } else if constexpr (sizeof(Code) == 8) {
      const auto high = group.upper().load(warp, in + group.upper_at(count), row);
      warp.each([&](int lane) {
        const Code field = static_cast<Code>(high[lane]) << 32 | low[lane];
        const Word value = Numbers::value_of(group.base + field, power);
        values[lane] = group.fills != 0 && field == 0 ? filler : value;
      });
    }
#ifdef LANESCOPE_ON_DEVICE
    const bool all = true;  // A tile has room for those that are not there.
#else
    const bool all = first + kLanes <= count;
#endif
    if (all)
      warp.each([&](int lane) { out[lane] = values[lane]; });
    else
      warp.each([&](int lane) {
        if (first + static_cast<std::uint32_t>(lane) < count) out[lane] = values[lane];
      });
  }

  /// Whether places of exceptions rise, and lie in the group.
  template <typename Warp>
  LANESCOPE_LANES static bool in_order(Warp warp, const std::uint8_t* places,
                                       std::uint32_t exceptions, std::uint32_t count) {
    Lanes<Warp, std::uint32_t> wrong;
    warp.each([&](int lane) {
      wrong[lane] = 0;
      for (auto i = static_cast<std::uint32_t>(lane); i < exceptions; i += kLanes) {
        const std::uint32_t place = load_half(places + 2 * i);
        const bool rises = i == 0 || load_half(places + 2 * i - 2) < place;
        wrong[lane] |= rises && place < count ? 0 : 1;
      }
    });
    return warp.any_bits(wrong) == 0;
  }

  /// Puts the exceptions from number `taken` on whose places lie before `end` where they belong,
  /// `out` having those from `first` on, and returns the number of the next one.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t take_exceptions(Warp warp, const std::uint8_t* in,
                                                       std::uint32_t count, const Group& group,
                                                       std::uint32_t taken, std::uint32_t first,
                                                       std::uint32_t end, Word* out) {
    const std::uint8_t* places = in + group.places_at(count);
    const std::uint8_t* from = in + group.exceptions_at(count);
#ifdef LANESCOPE_ON_DEVICE
    warp.sync();
    for (std::uint32_t found = kLanes; found == kLanes && taken < group.exceptions;) {
      Lanes<Warp, std::uint32_t> here;
      warp.each([&](int lane) {
        const std::uint32_t i = taken + static_cast<std::uint32_t>(lane);
        const std::uint32_t place = i < group.exceptions ? load_half(places + 2 * i) : end;
        here[lane] = place < end ? 1 : 0;
        if (place < end) out[place - first] = load_value<Word>(from + i * kSize);
      });
      found = bits_set(warp.lanes_with(here, 1));
      taken += found;
    }
#else
    static_cast<void>(warp);
    for (; taken < group.exceptions; ++taken) {
      const std::uint32_t place = load_half(places + 2 * taken);
      if (place >= end) break;
      out[place - first] = load_value<Word>(from + taken * kSize);
    }
#endif
    return taken;
  }
};

template <>
struct CodecOf<Codec::alp> : StripCodec {
  static constexpr int kAutoRank = 3;
  static constexpr int rank(Dtype) { return 0; }  // whether values were decimals no type tells

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (dtype == Dtype::float32) return go(AlpStrip<std::uint32_t>{}), true;
    if (dtype == Dtype::float64) return go(AlpStrip<std::uint64_t>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
