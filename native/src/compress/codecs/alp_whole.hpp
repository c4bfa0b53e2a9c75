#pragma once

#include <cstdint>

#include "compress/codecs/alp_decimals.hpp"
#include "compress/codecs/alp_fields.hpp"
#include "compress/codecs/alp_group.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

#ifdef LANESCOPE_ON_DEVICE

/// What a GPU does to the usual group: a whole one, whose fields have up to 32 bits. Nothing has to
/// look whether a value is there, most is arithmetic of 32 bits, and the next values are on their
/// way while some are coded. What comes out is what `AlpPut` makes of it by itself.
template <typename W>
struct AlpWhole {
  using Word = W;
  using Numbers = Decimal<Word>;
  using Code = typename Numbers::Code;
  using Group = AlpGroup<Word>;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  /// What is found of the codes; false where one of them is no integer of 32 bits.
  template <typename Warp>
  LANESCOPE_LANES static bool find_narrow(Warp warp, const Word* in, const DecimalPower& power,
                                          FoundCodes<Code>& found) {
    Lanes<Warp, std::uint32_t> most, most_negated, good, wide;
    warp.each([&](int lane) { most[lane] = most_negated[lane] = good[lane] = wide[lane] = 0; });
    for_rows(warp, in, [&](std::uint32_t, const Lanes<Warp, Word>& row) {
      warp.each([&](int lane) {
        const auto code = Numbers::narrow_of(row[lane], power);
        const std::uint32_t number = code.number, negated = ~number;
        wide[lane] |= code.good && !code.narrow ? 1 : 0;
        good[lane] += code.good ? 1 : 0;
        if (code.good && number > most[lane]) most[lane] = number;
        if (code.good && negated > most_negated[lane]) most_negated[lane] = negated;
      });
    });
    if (warp.lanes_with(wide, 1) != 0) return false;
    found.good = warp.sum_of_all(good);
    if (found.good == 0) return true;
    found.most = Numbers::kLeastNarrow + warp.most(most);
    const std::uint32_t least = ~warp.most(most_negated);
    found.least = static_cast<Code>(0 - (Numbers::kLeastNarrow + least));
    return true;
  }

  /// Stores a group.
  template <typename Warp>
  LANESCOPE_LANES static void put(Warp warp, const Word* in, Word filler, const DecimalPower& power,
                                  const Group& group, std::uint8_t* out) {
    typename FieldRows::Writer<Warp> fields(group.width, out);
    const auto base = static_cast<std::uint32_t>(group.base);
    if (group.exceptions == 0 && group.fills == 0) {
      if (group.width == 0) return;
      for_rows(warp, in, [&](std::uint32_t, const Lanes<Warp, Word>& row) {
        Lanes<Warp, std::uint32_t> field;
        warp.each([&](int lane) { field[lane] = Numbers::low_of(row[lane], power) - base; });
        fields.put(warp, field);
      });
      return fields.finish(warp);
    }
    std::uint8_t* places = out + group.places_at(Group::kMost);
    std::uint8_t* values = out + group.exceptions_at(Group::kMost);
    std::uint32_t before = 0;
    for_rows(warp, in, [&](std::uint32_t first, const Lanes<Warp, Word>& row) {
      Lanes<Warp, std::uint32_t> field, is;
      warp.each([&](int lane) {
        const Code code = Numbers::code_of(row[lane], power);
        field[lane] = code != 0 ? static_cast<std::uint32_t>(code) - base : 0;
        is[lane] = code == 0 && (group.fills == 0 || row[lane] != filler) ? 1 : 0;
      });
      fields.put(warp, field);
      const std::uint32_t lanes = warp.lanes_with(is, 1);
      warp.each([&](int lane) {
        if (is[lane] == 0) return;
        const std::uint32_t number = before + bits_set(lanes & ((1U << lane) - 1));
        store_half(places + 2 * number, first + static_cast<std::uint32_t>(lane));
        store_alp_value(values + number * static_cast<std::uint32_t>(sizeof(Word)), row[lane]);
      });
      before += bits_set(lanes);
    });
    fields.finish(warp);
    if (group.exceptions % 2 == 0) return;
    warp.each([&](int lane) {
      if (lane == 0) store_half(places + 2 * group.exceptions, 0);
    });
  }

 private:
  /// Calls `step(first, row)` for each 32 values.
  template <typename Warp, typename Step>
  LANESCOPE_LANES static void for_rows(Warp warp, const Word* in, Step step) {
    constexpr std::uint32_t kAtOnce = 4;
    Lanes<Warp, Word> ahead[kAtOnce];
    load_rows<kAtOnce>(warp, in, ahead);
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (std::uint32_t begin = 0; begin < Group::kMost; begin += kAtOnce * kLanes) {
      Lanes<Warp, Word> rows[kAtOnce];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k) rows[k] = ahead[k];
      if (begin + kAtOnce * kLanes < Group::kMost)
        load_rows<kAtOnce>(warp, in + begin + kAtOnce * kLanes, ahead);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k) step(begin + k * kLanes, rows[k]);
    }
  }

  template <std::uint32_t count, typename Warp>
  LANESCOPE_LANES static void load_rows(Warp warp, const Word* in, Lanes<Warp, Word>* rows) {
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < count; ++k)
      warp.each([&](int lane) { rows[k][lane] = in[k * kLanes + lane]; });
  }
};

#endif

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
