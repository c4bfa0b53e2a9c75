#pragma once

#include <cstdint>
#include <cstring>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_fields.hpp"
#include "compress/codecs/alp_group.hpp"
#include "compress/codecs/alp_search.hpp"
#include "compress/codecs/alp_whole.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Finds out how a group of `AlpStrip` is stored best, and stores it.
template <typename W>
struct AlpPut {
  using Word = W;
  using Numbers = Decimal<Word>;
  using Code = typename Numbers::Code;
  using Group = AlpGroup<Word>;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  /// What a CPU remembers of a group until it is stored: the codes of whole rows, 0 for exceptions
  /// and for what is not there. A GPU finds them once more.
  template <typename Warp>
  struct Coded {
#ifndef LANESCOPE_ON_DEVICE
    alignas(64) Code codes[Group::kMost];
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

  /// Stores a group, which there is room for.
  template <typename Warp>
  LANESCOPE_LANES static void put(Warp warp, const Word* in, std::uint32_t count, Word filler,
                                  const DecimalPower& power, const Group& group,
                                  [[maybe_unused]] Coded<Warp>& coded, std::uint8_t* out) {
    if (group.as_they_are()) return copy_to(warp, in, count, out);
#ifdef LANESCOPE_ON_DEVICE
    if (count == Group::kMost && group.width <= 32)
      return AlpWhole<Word>::put(warp, in, filler, power, group, out);
#endif
    typename FieldRows::Writer<Warp> lower(group.lower().width, out);
    typename FieldRows::Writer<Warp> upper(group.upper().width, out + group.upper_at(count));
    const auto put_codes = [&](auto code_of_lane) {
      Lanes<Warp, std::uint32_t> fields;
      warp.each([&](int lane) {
        fields[lane] = static_cast<std::uint32_t>(code_of_lane(lane) - group.base);
      });
      lower.put(warp, fields);
      if (sizeof(Code) == 4 || group.width <= 32) return;
      warp.each([&](int lane) {
        const auto field = static_cast<std::uint64_t>(code_of_lane(lane) - group.base);
        fields[lane] = static_cast<std::uint32_t>(field >> 32);
      });
      upper.put(warp, fields);
    };
#ifdef LANESCOPE_ON_DEVICE
    std::uint32_t exceptions = 0;
    for_rows(warp, in, count, [&](std::uint32_t first, const Lanes<Warp, Word>& row) {
      Lanes<Warp, Code> codes = codes_of(warp, row, first, count, power);
      if (group.exceptions > 0)
        exceptions +=
            put_exceptions(warp, row, first, count, filler, group, codes, exceptions, out);
      put_codes([&](int lane) { return codes[lane] == 0 ? group.base : codes[lane]; });
    });
#else
    static_cast<void>(power);
    put_exceptions(in, count, filler, group, coded.codes, out);
    for (std::uint32_t first = 0; first < count; first += kLanes) {
      const Code* codes = coded.codes + first;
      put_codes([&](int lane) { return codes[lane]; });
    }
#endif
    lower.finish(warp);
    upper.finish(warp);
  }

 private:
  static constexpr auto kSize = static_cast<std::uint32_t>(sizeof(Word));

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
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (sizeof(Word) == 8) {
      FoundCodes<Code> narrow;
      if (count == Group::kMost && AlpWhole<Word>::find_narrow(warp, in, power, narrow))
        return narrow;
    }
#endif
    CodeFinder<Warp, Code> finder(warp);
    for_rows(warp, in, count, [&](std::uint32_t first, const auto& row) {
      const Lanes<Warp, Code> codes = codes_of(warp, row, first, count, power);
      finder.add(warp, codes);
#ifndef LANESCOPE_ON_DEVICE
      warp.each([&](int lane) { coded.codes[first + lane] = codes[lane]; });
#endif
    });
    return finder.found(warp);
  }
#endif

  /// Calls `step(first, row)` for rows of 32 values; what is not there is 0. A GPU loads
  /// several rows before it uses them.
  template <typename Warp, typename Step>
  LANESCOPE_LANES static void for_rows(Warp warp, const Word* in, std::uint32_t count, Step step) {
#ifdef LANESCOPE_ON_DEVICE
    constexpr std::uint32_t kAtOnce = 4;
    for (std::uint32_t begin = 0; begin < count; begin += kAtOnce * kLanes) {
      Lanes<Warp, Word> rows[kAtOnce];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k)
        warp.each([&](int lane) {
          const std::uint32_t i = begin + k * kLanes + static_cast<std::uint32_t>(lane);
          rows[k][lane] = i < count ? in[i] : Word{0};
        });
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k)
        if (begin + k * kLanes < count) step(begin + k * kLanes, rows[k]);
    }
#else
    static_cast<void>(warp);
    const std::uint32_t rest = count % kLanes, whole = count - rest;
    for (std::uint32_t first = 0; first < whole; first += kLanes) step(first, in + first);
    if (rest == 0) return;
    Word last[kLanes] = {};
    std::memcpy(last, in + whole, rest * kSize);
    const Word* row = last;
    step(whole, row);
#endif
  }

  /// Codes of a row from value `first` on; 0 for values that are not there.
  template <typename Warp, typename Row>
  LANESCOPE_LANES static Lanes<Warp, Code> codes_of(Warp warp, const Row& row, std::uint32_t first,
                                                    std::uint32_t count,
                                                    const DecimalPower& power) {
    Lanes<Warp, Code> codes;
    const std::uint32_t there = count - first;
    warp.each([&](int lane) { codes[lane] = Numbers::code_of(row[lane], power); });
    if (there < kLanes)
      warp.each([&](int lane) {
        if (static_cast<std::uint32_t>(lane) >= there) codes[lane] = 0;
      });
    return codes;
  }

#ifdef LANESCOPE_ON_DEVICE
  /// Stores those of a row behind so many others, and returns how many there are.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t put_exceptions(Warp warp, const Lanes<Warp, Word>& row,
                                                      std::uint32_t first, std::uint32_t count,
                                                      Word filler, const Group& group,
                                                      const Lanes<Warp, Code>& codes,
                                                      std::uint32_t before, std::uint8_t* out) {
    Lanes<Warp, std::uint32_t> is;
    warp.each([&](int lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
      const bool one = codes[lane] == 0 && i < count && (group.fills == 0 || row[lane] != filler);
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
      store_alp_value(out + group.exceptions_at(count) + number * kSize, row[lane]);
    });
    return bits_set(lanes);
  }
#else
  /// Stores them, and gives them and what is not there the least code.
  static void put_exceptions(const Word* in, std::uint32_t count, Word filler, const Group& group,
                             Code* codes, std::uint8_t* out) {
    const std::uint32_t rest = count % kLanes;
    for (std::uint32_t i = count; rest != 0 && i < count - rest + kLanes; ++i)
      codes[i] = group.base;
    if (group.exceptions == 0 && group.fills == 0) return;
    std::uint8_t* places = out + group.places_at(count);
    std::uint8_t* to = out + group.exceptions_at(count);
    if (group.exceptions % 2 != 0) store_half(to - 2, 0);
    for (std::uint32_t first = 0; first < count; first += kLanes) {
      const bool whole = count - first >= kLanes;  // A base, which fills up the others, may be 0.
      std::uint32_t lanes = zeros(codes + first) & (whole ? ~0U : (1U << rest) - 1);
      for (; lanes != 0; lanes &= lanes - 1) {
        const std::uint32_t i = first + lowest_bit(lanes);
        codes[i] = group.base;
        if (group.fills != 0 && in[i] == filler) continue;
        store_half(places, i);
        store_alp_value(to, in[i]);
        places += 2;
        to += kSize;
      }
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
        store_alp_value(out + i * kSize, in[i]);
    });
#else
    static_cast<void>(warp);
    std::memcpy(out, in, count * kSize);
#endif
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
