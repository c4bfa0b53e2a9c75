#pragma once

#include <cstdint>

#include "compress/codecs/delta_shape.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"
#include "compress/words.hpp"

#ifdef LANESCOPE_ON_DEVICE
namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// What a GPU does with 128 values of 64 bits at a time, of which each lane has 4 that follow each
/// other: so 8 lanes have a group, and what is said of a group is found for four of them at once.
template <typename W>
struct DeltaQuads {
  using Word = W;
  using Shape = DeltaShape<Word>;
  using Predictor = typename Shape::Predictor;

  static constexpr std::uint32_t kQuad = 4;
  static constexpr std::uint32_t kAtOnce = kQuad * kLanes;  ///< Values.
  static constexpr int kGroupLanes = kLanes / kQuad;

  /// A lane's values, or differences of these.
  struct Quad {
    Word at[kQuad];
  };

  /// What a lane finds out but once.
  template <typename Warp>
  struct Place {
    int lane;
    std::uint32_t in_group;  ///< Of its planes the first one.
    std::uint32_t shift;     ///< Of its group's byte in a word of four.
    std::uint32_t before;    ///< The bytes of the groups before.
    typename Warp::QuadTurns turns;

    LANESCOPE_LANES explicit Place(Warp warp)
        : lane(warp.lane),
          in_group(kQuad * static_cast<std::uint32_t>(lane % kGroupLanes)),
          shift(8 * group()),
          before((1U << shift) - 1),
          turns(warp.quad_turns()) {}
    LANESCOPE_LANES std::uint32_t group() const {
      return static_cast<std::uint32_t>(lane / kGroupLanes);
    }
  };

  /// Widths and planes of all groups of a strip, the planes from `at` on; returns where they end.
  /// Planes that do not lie in `room` are not stored. Of the rest of a strip, that from value
  /// `begin` on, only planes are stored.
  template <bool rest = false, typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              Predictor predictor, std::uint8_t* out,
                                              std::uint32_t at, std::uint32_t room,
                                              std::uint32_t begin = 0) {
    // With lag 1, as smooth values have it, rounds have neither branches nor turns by their orders.
    if constexpr (!rest)
      if (predictor.lag == 1) {
        if (predictor.order == 1)
          return encode_as<1, false>(warp, in, values, predictor, out, at, room);
        if (predictor.order == 2)
          return encode_as<2, false>(warp, in, values, predictor, out, at, room);
        return encode_as<3, false>(warp, in, values, predictor, out, at, room);
      }
    return encode_as<kAny, rest>(warp, in, values, predictor, out, at, room, begin);
  }

  /// Of a strip for which `room` is too little, the first value that is not in it; planes lie from
  /// `at` on, which it moves behind those that are.
  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t fitting(Warp warp, const std::uint8_t* strip,
                                               std::uint32_t values, Predictor predictor,
                                               std::uint32_t& at, std::uint32_t room) {
    const Place<Warp> place(warp);
    std::uint32_t group = 0;
    LANESCOPE_NOT_UNROLLED
    for (; group < Shape::groups_of(values); group += kQuad) {
      const Widths widths =
          widths_at(place, strip, predictor.halves != 0, group, Shape::groups_of(values));
      const std::uint32_t all =
          warp.any_bits(of_all<Warp>((widths.first + widths.second) << place.shift));
      const std::uint32_t end = at + 2 * Warp::sum_of_bytes(all);
      if (end > room) break;
      at = end;
    }
    return group * Shape::kGroup;
  }

  /// Values of all groups of a strip, of which the planes lie from `at` on; false where they are
  /// not what `encode` makes.
  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     Predictor predictor, Out& out, std::uint32_t values,
                                     std::uint32_t at) {
    const Place<Warp> place(warp);
    const bool halves = predictor.halves != 0;
    const std::uint32_t groups = Shape::groups_of(values);
    Word sums[Shape::kMostOrder] = {};                 // Of each order, where the lag is 1.
    Lanes<Warp, Word> before[Shape::kMostOrder] = {};  // Else the last 32 of them.
    Planes planes;
    if (!load_planes(warp, place, in, bytes, halves, 0, groups, at, planes)) return false;
    for (std::uint32_t first = 0; first < values; first += kAtOnce) {
      Quad quad = codes_of(warp, place, planes);
      const std::uint32_t next = first / Shape::kGroup + kQuad;
      if (!load_planes(warp, place, in, bytes, halves, next, groups, at, planes)) return false;
      LANESCOPE_UNROLL
      for (auto& one : quad.at) one = Shape::zigzag_back(one);
      Word* to = out.at(first);
      if (predictor.lag == 1) {
        LANESCOPE_UNROLL
        for (std::uint32_t order = 0; order < Shape::kMostOrder; ++order)
          if (order == 0 || order < predictor.order) add_up(warp, quad, sums[order]);
        if (predictor.turned != 0) {
          LANESCOPE_UNROLL
          for (auto& one : quad.at) one = Shape::turn_back(one, 1);
        }
        put(quad, to, warp.lane);
      } else {
        put(quad, to, warp.lane);
        warp.sync();
        add_up_rows(warp, to, predictor, before);
      }
      out.done(warp, first + kAtOnce);
    }
    return (at + 3) / 4 * 4 == bytes;
  }

 private:
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  /// In place of an order: that of the predictor, with any lag.
  static constexpr std::uint32_t kAny = 0;

  /// The same as `encode`, of an order with lag 1.
  template <std::uint32_t order, bool rest, typename Warp>
  LANESCOPE_LANES static std::uint32_t encode_as(Warp warp, const Word* in, std::uint32_t values,
                                                 Predictor predictor, std::uint8_t* out,
                                                 std::uint32_t at, std::uint32_t room,
                                                 std::uint32_t begin = 0) {
    const Place<Warp> place(warp);
    Quad last[Shape::kMostOrder] = {};
    // Orders times lags are 32 at most: the 128 values before the rest tell of all before these.
    std::uint32_t first = rest && begin > 0 ? begin - kAtOnce : begin;
    Quad ahead = load(in, first, values, warp.lane);
    for (; first < values; first += kAtOnce) {
      Quad codes = ahead;
      ahead = load(in, first + kAtOnce, values, warp.lane);
      if constexpr (order == kAny)
        take_differences(warp, codes, last, predictor);
      else
        take_differences_of<order>(warp, codes, last[0], predictor.turned);
      LANESCOPE_UNROLL
      for (auto& code : codes.at) code = Shape::zigzag(code);
      if (first + kAtOnce > values) {
        const std::uint32_t mine = first + kQuad * static_cast<std::uint32_t>(warp.lane);
        LANESCOPE_UNROLL
        for (std::uint32_t j = 0; j < kQuad; ++j)
          if (mine + j >= values) codes.at[j] = 0;
      }
      if (rest && first < begin) continue;
      store<rest>(warp, place, codes, predictor.halves != 0, first / Shape::kGroup,
                  Shape::groups_of(values), out, at, room);
    }
    return at;
  }

  /// A lane's planes of its group: of each word of a code 4.
  struct Planes {
    std::uint32_t low[kQuad], high[kQuad];
  };

  /// Values from `first` on; 0 for those that are not there.
  LANESCOPE_LANES static Quad load(const Word* in, std::uint32_t first, std::uint32_t values,
                                   int lane) {
    const std::uint32_t mine = first + kQuad * static_cast<std::uint32_t>(lane);
    Quad quad;
    if (first + kAtOnce <= values) {
      const auto* units = reinterpret_cast<const uint4*>(in + mine);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < 2; ++k) {
        const uint4 unit = units[k];
        quad.at[2 * k] = static_cast<Word>(unit.y) << 32 | unit.x;
        quad.at[2 * k + 1] = static_cast<Word>(unit.w) << 32 | unit.z;
      }
    } else {
      LANESCOPE_UNROLL
      for (std::uint32_t j = 0; j < kQuad; ++j)
        quad.at[j] = mine + j < values ? in[mine + j] : Word{0};
    }
    return quad;
  }

  /// Differences of an order with lag 1. What it takes of the lane before comes at once; `last` has
  /// it of the 128 values before, and then of these.
  template <std::uint32_t order, typename Warp>
  LANESCOPE_LANES static void take_differences_of(Warp warp, Quad& quad, Quad& last,
                                                  std::uint32_t turned) {
    Word values[order + kQuad];
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j) values[order + j] = Shape::turn(quad.at[j], turned);
    LANESCOPE_UNROLL
    for (std::uint32_t n = 0; n < order; ++n) {
      Word& before = last.at[kQuad - order + n];
      const Word own = values[kQuad + n];
      values[n] = warp.of_lane(warp.lane == kLanes - 1 ? before : own, warp.lane + kLanes - 1);
      before = own;
    }
    LANESCOPE_UNROLL
    for (std::uint32_t times = 1; times <= order; ++times) {
      LANESCOPE_UNROLL
      for (std::uint32_t i = order + kQuad - 1; i >= times; --i) values[i] -= values[i - 1];
    }
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j) quad.at[j] = values[order + j];
  }

  /// Differences by any predictor; `last` has what those of each order are taken of.
  template <typename Warp>
  LANESCOPE_LANES static void take_differences(Warp warp, Quad& quad,
                                               Quad (&last)[Shape::kMostOrder],
                                               const Predictor& predictor) {
    if (predictor.turned != 0) {
      LANESCOPE_UNROLL
      for (auto& one : quad.at) one = Shape::turn(one, 1);
    }
    LANESCOPE_UNROLL
    for (std::uint32_t order = 0; order < Shape::kMostOrder; ++order)
      if (order == 0 || order < predictor.order)
        take_differences(warp, quad, last[order], predictor.lag);
  }

  /// Differences to what lies `lag` before; `last` has what that is of the 128 values before, and
  /// then of these.
  template <typename Warp>
  LANESCOPE_LANES static void take_differences(Warp warp, Quad& quad, Quad& last,
                                               std::uint32_t lag) {
    if (lag == 1) {
      const Word offered = warp.lane == kLanes - 1 ? last.at[kQuad - 1] : quad.at[kQuad - 1];
      last.at[kQuad - 1] = quad.at[kQuad - 1];
      const Word before = warp.of_lane(offered, warp.lane + kLanes - 1);
      LANESCOPE_UNROLL
      for (std::uint32_t j = kQuad - 1; j > 0; --j) quad.at[j] -= quad.at[j - 1];
      quad.at[0] -= before;
      return;
    }
    const std::uint32_t over = lag % kQuad;
    const Quad turned = turned_by(quad, over);
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j) {
      const int back = static_cast<int>(lag / kQuad + (j < over ? 1 : 0));
      const Word offered = warp.lane >= kLanes - back ? last.at[j] : turned.at[j];
      quad.at[j] -= warp.of_lane(offered, warp.lane + kLanes - back);
    }
    last = turned;
  }

  /// Widths and planes of the codes of four groups, as `DeltaPlanes::store_rows` stores them.
  template <bool rest, typename Warp>
  LANESCOPE_LANES static void store(Warp warp, const Place<Warp>& place, const Quad& codes,
                                    bool halves, std::uint32_t group, std::uint32_t groups,
                                    std::uint8_t* out, std::uint32_t& at, std::uint32_t room) {
    std::uint32_t low[kQuad], high[kQuad], any[2] = {};
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j) {
      low[j] = static_cast<std::uint32_t>(codes.at[j]);
      high[j] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(codes.at[j]) >> 32);
      any[0] |= low[j];
      any[1] |= high[j];
    }
    // Shuffles of planes and of widths by turns: each would wait for the one before.
    with_lane<1>(warp, any);
    swap_lanes<4>(warp, place, low, high);
    with_lane<2>(warp, any);
    swap_lanes<2>(warp, place, low, high);
    std::uint32_t mine = (any[1] != 0 ? kLanes : 0) + bit_length(any[1] != 0 ? any[1] : any[0]);
    const std::uint32_t other = warp.across(mine, kGroupLanes / 2);
    swap_lanes<1>(warp, place, low, high);
    if (!halves) mine = mine > other ? mine : other;
    const bool second = (place.lane & kGroupLanes / 2) != 0;
    const std::uint32_t units = halves ? mine + other : 2 * mine;  // Of 2 bytes: 128 at most.
    const std::uint32_t all = warp.any_bits(of_all<Warp>(units << place.shift));
    Warp::swap_rows(low);
    Warp::swap_rows(high);

    if (!rest) store_width(place, mine, halves, group, groups, out + Shape::kHeader);
    std::uint8_t* to = out + at + 2 * Warp::sum_of_bytes(all & place.before);
    at += 2 * Warp::sum_of_bytes(all);
    if (at > room) return;
    if (halves) {
      const std::uint32_t first = second ? other : mine;
      store_halves(place, first, units - first, low, high, to);
    } else {
      store_words(place, mine, low, high, to);
    }
  }

  template <typename Warp>
  LANESCOPE_LANES static auto of_all(std::uint32_t value) {
    return typename Warp::template Lanes<std::uint32_t>{value};
  }

  /// The values in places `by` higher, and the highest ones in the lowest places.
  LANESCOPE_LANES static Quad turned_by(const Quad& quad, std::uint32_t by) {
    Quad once, twice;
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j)
      once.at[j] = (by & 1) != 0 ? quad.at[(j + 3) % kQuad] : quad.at[j];
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j)
      twice.at[j] = (by & 2) != 0 ? once.at[(j + 2) % kQuad] : once.at[j];
    return twice;
  }

  /// The bits of a lane and of the one so far away.
  template <int apart, typename Warp>
  LANESCOPE_LANES static void with_lane(Warp warp, std::uint32_t (&any)[2]) {
    LANESCOPE_UNROLL
    for (auto& one : any) one |= warp.across(one, apart);
  }

  template <int apart, typename Warp>
  LANESCOPE_LANES static void swap_lanes(Warp warp, const Place<Warp>& place,
                                         std::uint32_t (&low)[kQuad],
                                         std::uint32_t (&high)[kQuad]) {
    warp.template swap_lanes<apart>(low, place.turns);
    warp.template swap_lanes<apart>(high, place.turns);
  }

  /// One lane of each half, or of each group, stores its byte.
  template <typename Warp>
  LANESCOPE_LANES static void store_width(const Place<Warp>& place, std::uint32_t width,
                                          bool halves, std::uint32_t group, std::uint32_t groups,
                                          std::uint8_t* out) {
    const int each = halves ? kGroupLanes / 2 : kGroupLanes;
    if (place.lane % each != 0 || group + place.group() >= groups) return;
    out[(group << (halves ? 1 : 0)) + static_cast<std::uint32_t>(place.lane / each)] =
        static_cast<std::uint8_t>(width);
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_words(const Place<Warp>& place, std::uint32_t width,
                                          const std::uint32_t (&low)[kQuad],
                                          const std::uint32_t (&high)[kQuad], std::uint8_t* out) {
    const int left = static_cast<int>(width - place.in_group);
    std::uint8_t* to = out + 4 * place.in_group;
    LANESCOPE_UNROLL
    for (int j = 0; j < static_cast<int>(kQuad); ++j) {
      if (j < left) store_word(to + 4 * j, low[j]);
      if (kLanes + j < left) store_word(to + 4 * (kLanes + j), high[j]);
    }
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_halves(const Place<Warp>& place, std::uint32_t first,
                                           std::uint32_t second, const std::uint32_t (&low)[kQuad],
                                           const std::uint32_t (&high)[kQuad], std::uint8_t* out) {
    const int left[2] = {static_cast<int>(first - place.in_group),
                         static_cast<int>(second - place.in_group)};
    std::uint8_t* to = out + 2 * place.in_group;
    std::uint8_t* behind = to + 2 * first;
    LANESCOPE_UNROLL
    for (int j = 0; j < static_cast<int>(kQuad); ++j) {
      if (j < left[0]) store_half(to + 2 * j, low[j]);
      if (j < left[1]) store_half(behind + 2 * j, low[j] >> 16);
      if (kLanes + j < left[0]) store_half(to + 2 * (kLanes + j), high[j]);
      if (kLanes + j < left[1]) store_half(behind + 2 * (kLanes + j), high[j] >> 16);
    }
  }

  /// Of the halves of a lane's group, or twice that of all of it; 0 where there is none.
  struct Widths {
    std::uint32_t first = 0, second = 0;
  };
  template <typename Warp>
  LANESCOPE_LANES static Widths widths_at(const Place<Warp>& place, const std::uint8_t* in,
                                          bool halves, std::uint32_t group, std::uint32_t groups) {
    if (group + place.group() >= groups) return {};
    const std::uint32_t more = halves ? 1 : 0;
    const std::uint8_t* widths = in + Shape::kHeader + ((group + place.group()) << more);
    return {widths[0], widths[more]};
  }

  /// Loads planes of four groups, 0 where there is none, from `at` on, which it moves behind them.
  /// False where they do not lie in `bytes`.
  template <typename Warp>
  LANESCOPE_LANES static bool load_planes(Warp warp, const Place<Warp>& place,
                                          const std::uint8_t* in, std::uint32_t bytes, bool halves,
                                          std::uint32_t group, std::uint32_t groups,
                                          std::uint32_t& at, Planes& planes) {
    if (group >= groups) return true;
    const auto [first, second] = widths_at(place, in, halves, group, groups);
    const bool possible = first <= Shape::kBits && second <= Shape::kBits;
    const std::uint32_t units = possible ? first + second : 0;  // Of 2 bytes: 128 at most.
    const std::uint32_t all = warp.any_bits(of_all<Warp>(units << place.shift));
    const std::uint8_t* from = in + at + 2 * Warp::sum_of_bytes(all & place.before);
    at += 2 * Warp::sum_of_bytes(all);
    if (warp.lanes_with(of_all<Warp>(possible ? 0 : 1), 1) != 0 || at > bytes) return false;
    if (halves)
      load_halves(place, first, second, from, planes);
    else
      load_words(place, first, from, planes);
    return true;
  }

  template <typename Warp>
  LANESCOPE_LANES static void load_words(const Place<Warp>& place, std::uint32_t width,
                                         const std::uint8_t* from, Planes& planes) {
    const int left = static_cast<int>(width - place.in_group);
    from += 4 * place.in_group;
    LANESCOPE_UNROLL
    for (int j = 0; j < static_cast<int>(kQuad); ++j) {
      planes.low[j] = j < left ? load_word(from + 4 * j) : 0;
      planes.high[j] = kLanes + j < left ? load_word(from + 4 * (kLanes + j)) : 0;
    }
  }

  template <typename Warp>
  LANESCOPE_LANES static void load_halves(const Place<Warp>& place, std::uint32_t first,
                                          std::uint32_t second, const std::uint8_t* from,
                                          Planes& planes) {
    const int left[2] = {static_cast<int>(first - place.in_group),
                         static_cast<int>(second - place.in_group)};
    from += 2 * place.in_group;
    const std::uint8_t* behind = from + 2 * first;
    const auto both = [&](int plane) {
      const std::uint32_t one = plane < left[0] ? load_half(from + 2 * plane) : 0;
      return one | (plane < left[1] ? load_half(behind + 2 * plane) : 0) << 16;
    };
    LANESCOPE_UNROLL
    for (int j = 0; j < static_cast<int>(kQuad); ++j) {
      planes.low[j] = both(j);
      planes.high[j] = both(kLanes + j);
    }
  }

  template <typename Warp>
  LANESCOPE_LANES static Quad codes_of(Warp warp, const Place<Warp>& place, Planes& planes) {
    warp.transpose(planes.low, place.turns);
    warp.transpose(planes.high, place.turns);
    Quad codes;
    LANESCOPE_UNROLL
    for (std::uint32_t j = 0; j < kQuad; ++j)
      codes.at[j] = static_cast<Word>(planes.high[j]) << 32 | planes.low[j];
    return codes;
  }

  /// Each difference added to those before; `sum` is that of all before, and then of these, too.
  template <typename Warp>
  LANESCOPE_LANES static void add_up(Warp warp, Quad& quad, Word& sum) {
    LANESCOPE_UNROLL
    for (std::uint32_t j = 1; j < kQuad; ++j) quad.at[j] += quad.at[j - 1];
    const Word own = quad.at[kQuad - 1];
    const Word sums = warp.sum_up_to(own);
    const Word before = sum + (sums - own);
    sum += warp.of_lane(sums, kLanes - 1);
    LANESCOPE_UNROLL
    for (auto& one : quad.at) one += before;
  }

  /// Stores values in order, `to` is aligned to 16 bytes.
  LANESCOPE_LANES static void put(const Quad& quad, Word* to, int lane) {
    auto* units = reinterpret_cast<uint4*>(to) + 2 * lane;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < 2; ++k) {
      const auto one = static_cast<std::uint64_t>(quad.at[2 * k]);
      const auto other = static_cast<std::uint64_t>(quad.at[2 * k + 1]);
      units[k] = {static_cast<std::uint32_t>(one), static_cast<std::uint32_t>(one >> 32),
                  static_cast<std::uint32_t>(other), static_cast<std::uint32_t>(other >> 32)};
    }
  }

  /// Makes values of differences, with any lag, where they lie.
  template <typename Warp>
  LANESCOPE_LANES static void add_up_rows(Warp warp, Word* at, const Predictor& predictor,
                                          Lanes<Warp, Word>* before) {
    const auto back = warp.lag_of(predictor.lag);
    Lanes<Warp, Word> rows[kQuad];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) rows[k][warp.lane] = at[k * kLanes + warp.lane];
    LANESCOPE_UNROLL
    for (std::uint32_t order = 0; order < Shape::kMostOrder; ++order)
      if (order == 0 || order < predictor.order)
        warp.template add_up<kQuad>(rows, before[order], back);
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k)
      at[k * kLanes + warp.lane] = Shape::turn_back(rows[k][warp.lane], predictor.turned);
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
#endif
