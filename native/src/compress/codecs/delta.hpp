#pragma once

#include <cstdint>

#include "compress/codecs/delta_planes.hpp"
#include "compress/codecs/delta_quads.hpp"
#include "compress/codecs/delta_samples.hpp"
#include "compress/codecs/delta_search.hpp"
#include "compress/codecs/delta_shape.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Differences of neighbours, packed to the bits that they need. A strip is
///
///   1 byte   lag: how many values back the one lies that a value's difference is taken to, 1 to 32
///   1 byte   turned: 1 where the sign was moved from the top to the bottom first, else 0
///   1 byte   order - 1: how many times more differences were taken, of differences, at that lag
///   1 byte   halves: 1 where each 16 values have a width of their own, else 0
///   1 byte   for each group of 32 values (64 of 16 bits): the width of its differences, in bits;
///            for each half of it one where they have their own; zeros up to a multiple of 4
///   for each group, `width` words of 32 bits: word p holds bit p of 32 differences (of 64 values
///            of 16 bits, first those of the first 32, then those of the others). Where halves have
///            widths, 16 bits of the first half's, and then of the other's (`HalfRow`)
///
/// Order and halves are those of 64-bit values in streams of version 2, up to 3 and 1; in others 0.
///
/// Differences wrap around and are zigzag-coded (0, -1, 1, -2, ...); before the strip lie zeros.
/// Values are taken as bits, so floating-point ones come back to the bit. Turning pays where signs
/// change from value to value: values of about one size are then close to each other whatever
/// their signs, for one bit more. Orders pay where values are smooth: one of order 2 is that to
/// what a straight line predicts, of order 3 a parabola. Noise they make larger.
template <typename W>
struct DeltaStrip {
  using Word = W;
  static constexpr bool kManyRegisters = sizeof(Word) == 8;
  static constexpr bool kCodesRest = sizeof(Word) == 8;
  /// Of four groups; the host gives one at a time.
  static constexpr std::uint32_t kRow = 4 * kLanes * (sizeof(Word) == 2 ? 2 : 1);

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    const std::uint32_t groups = Shape::groups_of(values);
    return Planes::planes_at(groups * (Shape::kWide ? 2 : 1)) +
           groups * Shape::kBits * Shape::kParts * 4;
  }

  /// On a GPU, of 64-bit values only what the search and the widths take: so an SM has more warps.
  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (Shape::kWide)
      if (bound(values) > DeltaSamples<Word>::kRoom) return DeltaSamples<Word>::kRoom;
#endif
    return bound(values);
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out,
                                              std::uint32_t room) {
    return encode_as(warp, in, values, Search::best_predictor(warp, in, values, out), out, room);
  }

#ifdef LANESCOPE_ON_DEVICE
  template <typename Warp, typename Store>
  LANESCOPE_LANES static void encode_rest(Warp warp, const Word* in, std::uint32_t values,
                                          std::uint8_t* strip, std::uint32_t room,
                                          std::uint32_t used, Store store) {
    using Quads = DeltaQuads<Word>;
    const Predictor predictor = Predictor::of(load_word(strip));
    std::uint32_t at = Planes::planes_at(Shape::groups_of(values) << predictor.halves);
    const std::uint32_t first = Quads::fitting(warp, strip, values, predictor, at, room);
    const std::uint32_t begin = at / 4 * 4;
    store(0, begin);
    const std::uint32_t half = at != begin ? load_word(strip + begin) : 0;
    warp.sync();
    store_word(strip, half);  // All lanes the same.
    warp.sync();
    at = Quads::template encode<true>(warp, in, values, predictor, strip, at - begin, room, first);
    ended(warp, strip, at, true);
    store(begin, used);
  }
#endif

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings& settings, Out& out, std::uint32_t values) {
    if (bytes < Shape::kHeader) return false;
    const Predictor predictor = Predictor::of(load_word(in));
    if (!predictor.possible(settings)) return false;
    const std::uint32_t groups = Shape::groups_of(values);
    std::uint32_t at = Planes::planes_at(groups << predictor.halves);
    if (bytes < at) return false;
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (Shape::kWide)
      return DeltaQuads<Word>::decode(warp, in, bytes, predictor, out, values, at);
    else
#endif
      return decode_rows(warp, in, bytes, predictor, out, values, at);
  }

 private:
  using Shape = DeltaShape<Word>;
  using Search = DeltaSearch<Word>;
  using Planes = DeltaPlanes<Word>;
  using Predictor = typename Shape::Predictor;
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  /// By a predictor that was found.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode_as(Warp warp, const Word* in, std::uint32_t values,
                                                 Predictor predictor, std::uint8_t* out,
                                                 [[maybe_unused]] std::uint32_t room) {
    const std::uint32_t groups = Shape::groups_of(values);
    std::uint32_t at = Planes::planes_at(groups << predictor.halves);
    warp.each([&](int lane) {
      if (lane == 0) {
        store_word(out + at - 4, 0);  // For zeros behind the last width; widths come later.
        store_word(out, predictor.header());
      }
    });
    warp.sync();
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (Shape::kWide) {
      at = DeltaQuads<Word>::encode(warp, in, values, predictor, out, at, room);
      return ended(warp, out, at, at < room);
    } else
#endif
      return encode_rows(warp, in, values, predictor, groups, out, at);
  }

  /// Planes and widths of all groups, from `at` on; returns where they end.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode_rows(Warp warp, const Word* in, std::uint32_t values,
                                                   Predictor predictor, std::uint32_t groups,
                                                   std::uint8_t* out, std::uint32_t at) {
    // Values before those that are coded, and their differences.
    Lanes<Warp, Word> last[Shape::kMostOrder];
    warp.each([&](int lane) {
      for (auto& one : last) one[lane] = 0;
    });
    Lanes<Warp, Word> ahead[Shape::kRows];
    const auto turns = warp.turns();
    load_ahead(warp, in, 0, values, ahead);
    for (std::uint32_t group = 0; group < groups; group += Shape::kAtOnce) {
#ifdef LANESCOPE_ON_DEVICE
      if constexpr (!Shape::kWide) {  // As differences of an update often are.
        if (all_zero<Shape::kRows>(warp, ahead, last[0])) {
          load_ahead(warp, in, (group + Shape::kAtOnce) * Shape::kGroup, values, ahead);
          Planes::store_widths(warp, 0, out + Shape::kHeader + group);
          continue;
        }
      }
#endif
      Lanes<Warp, Word> codes[Shape::kRows];
      take_rows(warp, in, group * Shape::kGroup, values, predictor, last, ahead, codes);
      if constexpr (Shape::kWide)
        Planes::store_rows(warp, turns, codes, predictor.halves != 0, group, groups, out, at);
      else
        Planes::store_groups(warp, turns, codes, group, out, at);
    }
    return ended(warp, out, at, true);
  }

  /// Values of all groups, of which the planes lie from `at` on.
  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode_rows(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                          Predictor predictor, Out& out, std::uint32_t values,
                                          std::uint32_t at) {
    const std::uint32_t groups = Shape::groups_of(values);
    const auto back = warp.lag_of(predictor.lag);
    const auto turns = warp.turns();

    Lanes<Warp, Word> before[Shape::kMostOrder];  // Of each order.
    warp.each([&](int lane) {
      for (auto& one : before) one[lane] = 0;
    });
    const bool halves = predictor.halves != 0;
    typename Planes::template Loaded<Warp> planes;
    if (Shape::kAhead && !Planes::load_planes(warp, in, bytes, halves, 0, groups, at, planes))
      return false;
    for (std::uint32_t group = 0; group < groups; group += Shape::kAtOnce) {
      if (!Shape::kAhead &&
          !Planes::load_planes(warp, in, bytes, halves, group, groups, at, planes))
        return false;
      Lanes<Warp, Word> rows[Shape::kRows];
#ifdef LANESCOPE_ON_DEVICE
      if constexpr (!Shape::kWide) {
        if (planes.empty() && all_zero<1>(warp, before, before[0])) {
          if (!Planes::load_planes(warp, in, bytes, halves, group + Shape::kAtOnce, groups, at,
                                   planes))
            return false;
          Word* zeros = out.at(group * Shape::kGroup);
          LANESCOPE_UNROLL
          for (std::uint32_t k = 0; k < Shape::kRows; ++k)
            warp.each([&](int lane) { zeros[k * kLanes + lane] = 0; });
          out.done(warp, (group + Shape::kAtOnce) * Shape::kGroup);
          continue;
        }
      }
#endif
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < Shape::kAtOnce; ++k)
        Planes::take_planes(warp, turns, planes.words + k * Shape::kWords, planes.width[k],
                            rows + k * Shape::kParts);
      if (Shape::kAhead &&
          !Planes::load_planes(warp, in, bytes, halves, group + Shape::kAtOnce, groups, at, planes))
        return false;
      const std::uint32_t first = group * Shape::kGroup;
      Word* to = out.at(first);
#ifndef LANESCOPE_ON_DEVICE
      if (first + Shape::kGroup <= values) {
        for (std::uint32_t k = 0; k < Shape::kRows; ++k)
          give_row(warp, rows[k], before, predictor, to + k * kLanes);
        out.done(warp, first + Shape::kGroup);
        continue;
      }
#endif
      LANESCOPE_UNROLL
      for (std::uint32_t order = 0; order < Shape::kMostOrder; ++order)
        if (order == 0 || order < predictor.order)
          warp.template add_up<Shape::kRows>(rows, before[order], back);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < Shape::kRows; ++k)
        store_values(warp, rows[k], predictor.turned, to + k * kLanes, values, first + k * kLanes);
      out.done(warp, first + Shape::kAtOnce * Shape::kGroup);
    }
    return (Shape::kWide ? (at + 3) / 4 * 4 : at) == bytes;
  }

  /// Fills a word up, where what is written of it fits.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t ended(Warp warp, std::uint8_t* out, std::uint32_t at,
                                             bool fits) {
    if (at % 4 != 0) {
      if (fits) warp.each([&](int) { store_half(out + at, 0); });
      at += 2;
    }
    warp.sync();
    return at;
  }

#ifdef LANESCOPE_ON_DEVICE
  /// Whether rows are, and one more.
  template <std::uint32_t count, typename Warp>
  LANESCOPE_LANES static bool all_zero(Warp warp, const Lanes<Warp, Word>* rows,
                                       const Lanes<Warp, Word>& more) {
    Lanes<Warp, std::uint32_t> bits;
    warp.each([&](int lane) {
      bits[lane] = more[lane];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < count; ++k) bits[lane] |= rows[k][lane];
    });
    return warp.lanes_with(bits, ~std::uint32_t{0}) == 0;
  }
#endif

  /// On a GPU, loads the values of `kAtOnce` groups from `first` on: before they are used, since
  /// that takes long.
  template <typename Warp>
  LANESCOPE_LANES static void load_ahead([[maybe_unused]] Warp warp,
                                         [[maybe_unused]] const Word* in,
                                         [[maybe_unused]] std::uint32_t first,
                                         [[maybe_unused]] std::uint32_t values,
                                         [[maybe_unused]] Lanes<Warp, Word>* ahead) {
#ifdef LANESCOPE_ON_DEVICE
    if (first + Shape::kRows * kLanes <= values) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < Shape::kRows; ++k)
        warp.each([&](int lane) { ahead[k][lane] = in[first + k * kLanes + lane]; });
    } else {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < Shape::kRows; ++k)
        ahead[k] = Shape::load_row(warp, in, first + k * kLanes, values);
    }
#endif
  }

  /// Codes of the differences of `kAtOnce` groups from value `first` on. On a GPU, `last` has the
  /// 32 values before, and what differences of each lower order are taken of, and then the last
  /// ones; `ahead` has the values, and then the next ones.
  template <typename Warp>
  LANESCOPE_LANES static void take_rows(Warp warp, const Word* in, std::uint32_t first,
                                        std::uint32_t values, Predictor predictor,
                                        Lanes<Warp, Word>* last, Lanes<Warp, Word>* ahead,
                                        Lanes<Warp, Word>* codes) {
#ifdef LANESCOPE_ON_DEVICE
    const auto back = warp.lag_of(predictor.lag);
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kRows; ++k)
      warp.each([&](int lane) { codes[k][lane] = Shape::turn(ahead[k][lane], predictor.turned); });
    load_ahead(warp, in, first + Shape::kRows * kLanes, values, ahead);
    LANESCOPE_UNROLL
    for (std::uint32_t order = 0; order < Shape::kMostOrder; ++order)
      if (order == 0 || order < predictor.order) {
        LANESCOPE_UNROLL
        for (std::uint32_t k = 0; k < Shape::kRows; ++k) {
          const Lanes<Warp, Word> row = codes[k];
          const auto earlier = warp.back(last[order], row, back);
          warp.each(
              [&](int lane) { codes[k][lane] = static_cast<Word>(row[lane] - earlier[lane]); });
          last[order] = row;
        }
      }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kRows; ++k)
      warp.each([&](int lane) { codes[k][lane] = Shape::zigzag(codes[k][lane]); });
    if (first + Shape::kRows * kLanes <= values) return;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < Shape::kRows; ++k)
      warp.each([&](int lane) {
        if (first + k * kLanes + static_cast<std::uint32_t>(lane) >= values) codes[k][lane] = 0;
      });
#else
    static_cast<void>(last);
    static_cast<void>(ahead);
    for (std::uint32_t k = 0; k < Shape::kRows; ++k)
      codes[k] = differences(warp, in, first + k * kLanes, values, predictor);
#endif
  }

#ifndef LANESCOPE_ON_DEVICE
  /// Codes of the values from `first` on; 0 for those that are not there.
  template <typename Warp>
  static Lanes<Warp, Word> differences(Warp warp, const Word* in, std::uint32_t first,
                                       std::uint32_t values, Predictor predictor) {
    if constexpr (Shape::kWide) {
      if (predictor.order == 2) return differences_of<2>(warp, in, first, values, predictor);
      if (predictor.order == 3) return differences_of<3>(warp, in, first, values, predictor);
    }
    return differences_of<1>(warp, in, first, values, predictor);
  }

  /// `order` times the lag is 32 at most.
  template <std::uint32_t order, typename Warp>
  static Lanes<Warp, Word> differences_of(Warp warp, const Word* in, std::uint32_t first,
                                          std::uint32_t values, Predictor predictor) {
    Lanes<Warp, Word> codes;
    const std::uint32_t turned = predictor.turned;
    if (first >= kLanes && first + kLanes <= values) {
      const Word* from = in + first;
      warp.each([&](int lane) {
        codes[lane] = Shape::zigzag(Shape::template difference<order>(
            [&](std::uint32_t back) { return Shape::turn((from - back)[lane], turned); },
            predictor.lag));
      });
    } else {
      warp.each([&](int lane) {
        const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
        const auto value = [&](std::uint32_t back) {
          return i < values && i >= back ? Shape::turn(in[i - back], turned) : Word{0};
        };
        codes[lane] = Shape::zigzag(Shape::template difference<order>(value, predictor.lag));
      });
    }
    return codes;
  }

  /// Adds up a row of differences, and stores the values that this makes: at once, since a CPU
  /// waits where it loads as a vector what it has just stored value by value.
  template <typename Warp>
  static void give_row(Warp warp, Lanes<Warp, Word>& row, Lanes<Warp, Word>* before,
                       Predictor predictor, Word* out) {
    std::uint32_t order = 1;
    for (; order < predictor.order; ++order, ++before)
      warp.add_up_to(row, *before, predictor.lag, [&](int lane, Word sum) { row[lane] = sum; });
    if (predictor.turned == 0)
      warp.add_up_to(row, *before, predictor.lag, [&](int lane, Word sum) { out[lane] = sum; });
    else
      warp.add_up_to(row, *before, predictor.lag,
                     [&](int lane, Word sum) { out[lane] = Shape::turn_back(sum, 1); });
  }
#endif

  template <typename Warp>
  LANESCOPE_LANES static void store_values(Warp warp, const Lanes<Warp, Word>& sums,
                                           std::uint32_t turned, Word* out, std::uint32_t values,
                                           std::uint32_t first) {
#ifdef LANESCOPE_ON_DEVICE
    const bool all = true;  // A tile has room for those that are not there.
#else
    const bool all = first + kLanes <= values;
#endif
    if (all) {
      warp.each([&](int lane) { out[lane] = Shape::turn_back(sums[lane], turned); });
    } else {
      warp.each([&](int lane) {
        if (first + static_cast<std::uint32_t>(lane) < values)
          out[lane] = Shape::turn_back(sums[lane], turned);
      });
    }
  }
};

template <>
struct CodecOf<Codec::delta> : StripCodec {
  static constexpr int kAutoRank = 1;
  static constexpr int rank(Dtype) { return 2; }

  template <typename Go>
  static bool with_strip(Dtype dtype, Go go) {
    if (bytes_of(dtype) == 2) return go(DeltaStrip<std::uint16_t>{}), true;
    if (bytes_of(dtype) == 4) return go(DeltaStrip<std::uint32_t>{}), true;
    if (bytes_of(dtype) == 8) return go(DeltaStrip<std::uint64_t>{}), true;
    return false;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
