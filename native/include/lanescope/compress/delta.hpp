#pragma once

#include <cstdint>

#include "lanescope/compress/half_rows.hpp"
#include "lanescope/compress/strip_codec.hpp"
#include "lanescope/compress/warp.hpp"
#include "lanescope/compress/words.hpp"

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
///   of
///            16 bits, first those of the first 32, then those of the others). Where halves have
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
  /// Of four groups; the host gives one at a time.
  static constexpr std::uint32_t kRow = 4 * kLanes * (sizeof(Word) == 2 ? 2 : 1);

  static constexpr bool kWide = sizeof(Word) == 8;  ///< Whether there are orders and halves.
  static constexpr std::uint32_t kMostOrder = kWide ? 3 : 1;

  LANESCOPE_LANES static constexpr std::uint32_t bound(std::uint32_t values) {
    const std::uint32_t groups = groups_of(values);
    return planes_at(groups * (kWide ? 2 : 1)) + groups * kBits * kParts * 4;
  }

  LANESCOPE_LANES static constexpr std::uint32_t least_room(std::uint32_t values) {
    return bound(values);
  }

  template <typename Warp>
  LANESCOPE_LANES static std::uint32_t encode(Warp warp, const Word* in, std::uint32_t values,
                                              const Settings&, std::uint8_t* out, std::uint32_t) {
    const Predictor predictor = best_predictor(warp, in, values);
    const std::uint32_t groups = groups_of(values);
    std::uint32_t at = planes_at(groups << predictor.halves);
    warp.each([&](int lane) {
      if (lane == 0) {
        store_word(out + at - 4, 0);  // For zeros behind the last width; widths come later.
        store_word(out, predictor.header());
      }
    });
    warp.sync();
    Lanes<Warp, Word> last[kMostOrder];  // Values before those that are coded, and differences.
    warp.each([&](int lane) {
      for (auto& one : last) one[lane] = 0;
    });
    Lanes<Warp, Word> ahead[kRows];
    const auto turns = warp.turns();
    load_ahead(warp, in, 0, values, ahead);
    for (std::uint32_t group = 0; group < groups; group += kAtOnce) {
      Lanes<Warp, Word> codes[kRows];
      take_rows(warp, in, group * kGroup, values, predictor, last, ahead, codes);
      if constexpr (kWide)
        store_rows(warp, turns, codes, predictor.halves != 0, group, groups, out, at);
      else
        store_groups(warp, turns, codes, group, out, at);
    }
    if (at % 4 != 0) {
      warp.each([&](int) { store_half(out + at, 0); });
      at += 2;
    }
    warp.sync();
    return at;
  }

  template <typename Warp, typename Out>
  LANESCOPE_LANES static bool decode(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                     const Settings& settings, Out& out, std::uint32_t values) {
    if (bytes < kHeader) return false;
    const Predictor predictor = Predictor::of(load_word(in));
    if (!predictor.possible(settings)) return false;
    const std::uint32_t groups = groups_of(values);
    std::uint32_t at = planes_at(groups << predictor.halves);
    if (bytes < at) return false;
    const auto back = warp.lag_of(predictor.lag);
    const auto turns = warp.turns();

    Lanes<Warp, Word> before[kMostOrder];  // Of each order.
    warp.each([&](int lane) {
      for (auto& one : before) one[lane] = 0;
    });
    const bool halves = predictor.halves != 0;
    Planes<Warp> planes;
    if (kAhead && !load_planes(warp, in, bytes, halves, 0, groups, at, planes)) return false;
    for (std::uint32_t group = 0; group < groups; group += kAtOnce) {
      if (!kAhead && !load_planes(warp, in, bytes, halves, group, groups, at, planes)) return false;
      Lanes<Warp, Word> rows[kRows];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k)
        take_planes(warp, turns, planes.words + k * kWords, planes.width[k], rows + k * kParts);
      if (kAhead && !load_planes(warp, in, bytes, halves, group + kAtOnce, groups, at, planes))
        return false;
      const std::uint32_t first = group * kGroup;
      Word* to = out.at(first);
#ifndef LANESCOPE_ON_DEVICE
      if (first + kGroup <= values) {
        for (std::uint32_t k = 0; k < kRows; ++k)
          give_row(warp, rows[k], before, predictor, to + k * kLanes);
        out.done(warp, first + kGroup);
        continue;
      }
#endif
      LANESCOPE_UNROLL
      for (std::uint32_t order = 0; order < kMostOrder; ++order)
        if (order == 0 || order < predictor.order)
          warp.template add_up<kRows>(rows, before[order], back);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kRows; ++k)
        store_values(warp, rows[k], predictor.turned, to + k * kLanes, values, first + k * kLanes);
      out.done(warp, first + kAtOnce * kGroup);
    }
    return (kWide ? (at + 3) / 4 * 4 : at) == bytes;
  }

 private:
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr std::uint32_t kBits = 8 * sizeof(Word);
  static constexpr std::uint32_t kParts =
      sizeof(Word) == 2 ? 2 : 1;  // 32 x 16 bits twice: one transposition.
  static constexpr std::uint32_t kGroup = kLanes * kParts;
  static constexpr std::uint32_t kHeader = 4;
  static constexpr std::uint32_t kLags = 10;
  static constexpr std::uint32_t kSamples = 8;
#ifdef LANESCOPE_ON_DEVICE
  static constexpr std::uint32_t kAtOnce = 4;  // Groups whose steps overlap; a word of widths.
#else
  static constexpr std::uint32_t kAtOnce = 1;
#endif
  static constexpr bool kAhead = kAtOnce > 1;  // Whether planes are loaded a step before.
  static constexpr std::uint32_t kWords = sizeof(Word) == 8 ? 2 : 1;  // Of a lane's planes.
  static constexpr std::uint32_t kRows = kAtOnce * kParts;

  struct Predictor {
    std::uint32_t lag;
    std::uint32_t turned;  // 0 or 1
    std::uint32_t order = 1;
    std::uint32_t halves = 0;  // 0 or 1

    LANESCOPE_LANES static Predictor of(std::uint32_t header) {
      return {header & 0xFF, header >> 8 & 0xFF, 1 + (header >> 16 & 0xFF), header >> 24};
    }
    LANESCOPE_LANES std::uint32_t header() const {
      return lag | turned << 8 | (order - 1) << 16 | halves << 24;
    }
    LANESCOPE_LANES bool possible(const Settings& settings) const {
      const bool old = !kWide || settings.version < 2;
      return lag >= 1 && lag <= kLanes && turned <= 1 && order <= (old ? 1 : kMostOrder) &&
             halves <= (old ? 0 : 1);
    }
  };

  /// Of `kAtOnce` groups, as they were stored.
  template <typename Warp>
  struct Planes {
    Lanes<Warp, std::uint32_t> words[kAtOnce * kWords];
    std::uint32_t width[kAtOnce];
  };

  LANESCOPE_LANES static constexpr std::uint32_t groups_of(std::uint32_t values) {
    return parts_of(values, kGroup);
  }

  LANESCOPE_LANES static constexpr std::uint32_t planes_at(std::uint32_t widths) {
    return kHeader + parts_of(widths, 4) * 4;
  }

  /// The lags that are tried: 1 to 8, 16 and 32.
  LANESCOPE_LANES static constexpr std::uint32_t lag_of(std::uint32_t number) {
    return number < 8 ? number + 1 : 16U << (number - 8);
  }

  LANESCOPE_LANES static std::uint32_t width_of(Word bits) {
    if constexpr (sizeof(Word) == 8) {
      const auto high = static_cast<std::uint32_t>(bits >> 32);
      return high != 0 ? 32 + bit_length(high) : bit_length(static_cast<std::uint32_t>(bits));
    } else {
      return bit_length(bits);
    }
  }

  /// `turned` is 0 or 1; so this is a rotation, which GPUs have.
  LANESCOPE_LANES static Word turn(Word value, std::uint32_t turned) {
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (sizeof(Word) >= 4) return rotated(value, turned);
#endif
    return static_cast<Word>((value << turned) | ((value >> (kBits - 1)) & turned));
  }

  LANESCOPE_LANES static Word turn_back(Word value, std::uint32_t turned) {
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (sizeof(Word) == 4) return rotated(value, 0 - turned);
#endif
    return static_cast<Word>((value >> turned) |
                             (static_cast<Word>(value & turned) << (kBits - 1)));
  }

#ifdef LANESCOPE_ON_DEVICE
  /// To the left, by less than 32 bits.
  __device__ static Word rotated(Word value, std::uint32_t bits) {
    const auto low = static_cast<std::uint32_t>(value);
    if constexpr (sizeof(Word) == 4) return __funnelshift_l(low, low, bits);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
    return static_cast<Word>(static_cast<std::uint64_t>(__funnelshift_l(low, high, bits)) << 32 |
                             __funnelshift_l(high, low, bits));
  }
#endif

  LANESCOPE_LANES static Word zigzag(Word difference) {
    const Word negative = static_cast<Word>(difference >> (kBits - 1));
    return static_cast<Word>(static_cast<Word>(difference << 1) ^ static_cast<Word>(0 - negative));
  }

  LANESCOPE_LANES static Word zigzag_back(Word code) {
    return static_cast<Word>((code >> 1) ^ static_cast<Word>(0 - static_cast<Word>(code & 1)));
  }

  /// On a GPU, loads the values of `kAtOnce` groups from `first` on: before they are used, since
  /// that takes long.
  template <typename Warp>
  LANESCOPE_LANES static void load_ahead([[maybe_unused]] Warp warp,
                                         [[maybe_unused]] const Word* in,
                                         [[maybe_unused]] std::uint32_t first,
                                         [[maybe_unused]] std::uint32_t values,
                                         [[maybe_unused]] Lanes<Warp, Word>* ahead) {
#ifdef LANESCOPE_ON_DEVICE
    if (first + kRows * kLanes <= values) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kRows; ++k)
        warp.each([&](int lane) { ahead[k][lane] = in[first + k * kLanes + lane]; });
    } else {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kRows; ++k)
        ahead[k] = load_row(warp, in, first + k * kLanes, values);
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
    for (std::uint32_t k = 0; k < kRows; ++k)
      warp.each([&](int lane) { codes[k][lane] = turn(ahead[k][lane], predictor.turned); });
    load_ahead(warp, in, first + kRows * kLanes, values, ahead);
    LANESCOPE_UNROLL
    for (std::uint32_t order = 0; order < kMostOrder; ++order)
      if (order == 0 || order < predictor.order) {
        LANESCOPE_UNROLL
        for (std::uint32_t k = 0; k < kRows; ++k) {
          const Lanes<Warp, Word> row = codes[k];
          const auto earlier = warp.back(last[order], row, back);
          warp.each(
              [&](int lane) { codes[k][lane] = static_cast<Word>(row[lane] - earlier[lane]); });
          last[order] = row;
        }
      }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kRows; ++k)
      warp.each([&](int lane) { codes[k][lane] = zigzag(codes[k][lane]); });
    if (first + kRows * kLanes <= values) return;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kRows; ++k)
      warp.each([&](int lane) {
        if (first + k * kLanes + static_cast<std::uint32_t>(lane) >= values) codes[k][lane] = 0;
      });
#else
    static_cast<void>(last);
    static_cast<void>(ahead);
    for (std::uint32_t k = 0; k < kRows; ++k)
      codes[k] = differences(warp, in, first + k * kLanes, values, predictor);
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_widths(Warp warp, std::uint32_t widths, std::uint8_t* out) {
    warp.each([&](int lane) {
      if constexpr (kAtOnce == 4)
        store_word(out, widths);  // All lanes the same: that takes no branch.
      else if (lane == 0)
        *out = static_cast<std::uint8_t>(widths);
    });
  }

  /// Widths of the next `kAtOnce` of `left` groups, 0 where there are none.
  LANESCOPE_LANES static std::uint32_t load_widths(const std::uint8_t* in, std::uint32_t left) {
    if constexpr (kAtOnce == 4) {
      const std::uint32_t widths = load_word(in);
      return left >= 4 ? widths : widths & ((1U << 8 * left) - 1);
    } else {
      return *in;
    }
  }

  /// 32 values from `first` on, 0 for those that are not there.
  template <typename Warp>
  LANESCOPE_LANES static Lanes<Warp, Word> load_row(Warp warp, const Word* in, std::uint32_t first,
                                                    std::uint32_t values) {
    Lanes<Warp, Word> row;
    warp.each([&](int lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
      row[lane] = i < values ? in[i] : Word{0};
    });
    return row;
  }

#ifndef LANESCOPE_ON_DEVICE
  /// Codes of the values from `first` on; 0 for those that are not there.
  template <typename Warp>
  static Lanes<Warp, Word> differences(Warp warp, const Word* in, std::uint32_t first,
                                       std::uint32_t values, Predictor predictor) {
    if constexpr (kWide) {
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
        codes[lane] = zigzag(difference<order>(
            [&](std::uint32_t back) { return turn((from - back)[lane], turned); }, predictor.lag));
      });
    } else {
      warp.each([&](int lane) {
        const std::uint32_t i = first + static_cast<std::uint32_t>(lane);
        const auto value = [&](std::uint32_t back) {
          return i < values && i >= back ? turn(in[i - back], turned) : Word{0};
        };
        codes[lane] = zigzag(difference<order>(value, predictor.lag));
      });
    }
    return codes;
  }
#endif

  /// Of the value `value(0)`, with `value(n)` as the one n places before.
  template <std::uint32_t order, typename Value>
  LANESCOPE_LANES static Word difference(Value value, std::uint32_t lag) {
    const Word near = value(lag);
    Word found = static_cast<Word>(value(0) - near);
    if constexpr (order == 2) found = static_cast<Word>(found - (near - value(2 * lag)));
    if constexpr (order == 3) {
      const Word steps = static_cast<Word>(near - value(2 * lag));  // Three times 1, 2 ago.
      found = static_cast<Word>(value(0) - value(3 * lag) - steps - 2 * steps);
    }
    return found;
  }

#ifndef LANESCOPE_ON_DEVICE
  /// A row of the sample, and the 32 values before, turned but once; 0 where there are none.
  template <typename Warp>
  struct SampleRow {
    Word at[2 * kLanes];
    std::uint32_t there;

    SampleRow() = default;
    SampleRow(Warp, const Word* in, std::uint32_t first, std::uint32_t values, std::uint32_t turned)
        : at{}, there(values - first < kLanes ? values - first : kLanes) {
      const std::uint32_t before = first < kLanes ? first : kLanes;
      for (std::uint32_t i = kLanes - before; i < kLanes + there; ++i)
        at[i] = turn(in[first + i - kLanes], turned);
    }

    template <std::uint32_t order>
    Lanes<Warp, Word> codes(Warp warp, std::uint32_t lag) const {
      Lanes<Warp, Word> codes;
      const Word* now = at + kLanes;
      warp.each([&](int lane) {
        codes[lane] =
            zigzag(difference<order>([&](std::uint32_t back) { return (now - back)[lane]; }, lag));
      });
      for (std::uint32_t i = there; i < kLanes; ++i) codes[static_cast<int>(i)] = 0;
      return codes;
    }
  };

  /// Adds the widths that the 32 values from `first` on have with each lag.
  template <typename Warp>
  static void add_widths(Warp warp, const Word* in, std::uint32_t first, std::uint32_t values,
                         std::uint32_t turned, std::uint32_t (*widths)[2]) {
    const SampleRow<Warp> row(warp, in, first, values, turned);
    for (std::uint32_t number = 0; number < kLags; ++number)
      widths[number][turned] +=
          width_of(warp.any_bits(row.template codes<1>(warp, lag_of(number))));
  }

  template <typename Warp>
  struct SampleCosts {
    Warp warp;
    const SampleRow<Warp>* rows;
    std::uint32_t samples;

    template <std::uint32_t order>
    auto of(std::uint32_t lag) const {
      Cost cost;
      for (std::uint32_t k = 0; k < samples; ++k) {
        Word first, second;
        warp.any_bits(rows[k].template codes<order>(warp, lag), first, second);
        cost.add(first, second);
      }
      return cost;
    }
  };
#else
  /// Of samples in registers, that are turned already.
  template <typename Warp>
  struct SampleCosts {
    Warp warp;
    const Lanes<Warp, Word>* rows;
    const Lanes<Warp, Word>* before;
    const Lanes<Warp, Word>* there;

    template <std::uint32_t order>
    LANESCOPE_LANES auto of(std::uint32_t lag) const {
      typename Warp::Lag back[order];
      LANESCOPE_UNROLL
      for (std::uint32_t n = 0; n < order; ++n) back[n] = warp.lag_of((n + 1) * lag);
      Cost cost;
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kSamples; ++k) {
        Lanes<Warp, Word> codes, earlier[order];
        LANESCOPE_UNROLL
        for (std::uint32_t n = 0; n < order; ++n)
          earlier[n] = warp.back(before[k], rows[k], back[n]);
        warp.each([&](int lane) {
          Word values[order + 1] = {rows[k][lane]};
          LANESCOPE_UNROLL
          for (std::uint32_t n = 0; n < order; ++n) values[n + 1] = earlier[n][lane];
          const Word code =
              zigzag(difference<order>([&](std::uint32_t n) { return values[n]; }, 1));
          codes[lane] = static_cast<Word>(code & there[k][lane]);
        });
        Word first, second;
        warp.any_bits(codes, first, second);
        cost.add(first, second);
      }
      return cost;
    }
  };
#endif

  /// What a few groups cost.
  struct Cost {
    std::uint32_t halves = 0;  // Widths of halves, added up.
    std::uint32_t whole = 0;   // Of groups.

    LANESCOPE_LANES void add(Word first, Word second) {
      const HalfRow row{width_of(first), width_of(second)};
      halves += row.first + row.second;
      whole += row.most();
    }
  };

  /// Of 64-bit values, finds out about order, the lag for it, and halves; turned or not, and the
  /// lag of order 1, are those of `one`. `cost` has a function `of<order>(lag)`.
  template <typename Costs>
  LANESCOPE_LANES static Predictor refined(const Predictor& one, std::uint32_t samples,
                                           const Costs& cost) {
    Predictor best{1, one.turned, 2};
    Cost least{~std::uint32_t{0}, 0};
    for (std::uint32_t number = 0; number < kLags && 2 * lag_of(number) <= kLanes; ++number) {
      const Cost found = cost.template of<2>(lag_of(number));
      if (found.halves >= least.halves) continue;
      least = found;
      best.lag = lag_of(number);
    }
    if (3 * best.lag <= kLanes) {
      const Cost found = cost.template of<3>(best.lag);
      if (found.halves < least.halves) {
        least = found;
        best.order = 3;
      }
    }
    const Cost found = cost.template of<1>(one.lag);
    if (found.halves <= least.halves) {
      least = found;
      best = one;
    }
    // A width is a byte, and a bit of it 2 bytes in half a group.
    best.halves = 2 * least.halves + samples < 4 * least.whole;
    return best;
  }

  /// The lag, turned or not, with which a few groups become smallest; of 64-bit values also the
  /// order, and whether halves have widths.
  template <typename Warp>
  LANESCOPE_LANES static Predictor best_predictor(Warp warp, const Word* in, std::uint32_t values) {
    const std::uint32_t groups = groups_of(values);
    const std::uint32_t samples = groups < kSamples ? groups : kSamples;
    const auto first_of = [&](std::uint32_t sample) {  // Where every group is one: itself.
      return (samples < kSamples ? sample : (2 * sample + 1) * groups / (2 * kSamples)) * kGroup;
    };
    Predictor best{1, 0};
    std::uint32_t least = ~std::uint32_t{0};
    const auto judge = [&](std::uint32_t lag, std::uint32_t turned, std::uint32_t widths) {
      if (widths >= least) return;
      least = widths;
      best = {lag, turned};
    };
#ifdef LANESCOPE_ON_DEVICE
    // What depends on the sample only is found out before lags are tried: `there` has all bits for
    // values that are there.
    Lanes<Warp, Word> rows[kSamples], before[kSamples], there[kSamples];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kSamples; ++k) {
      const std::uint32_t first = k < samples ? first_of(k) : values;  // or nothing
      rows[k] = load_row(warp, in, first, values);
      before[k] = load_row(warp, in, first - kLanes, first >= kLanes && k < samples ? values : 0);
      warp.each([&](int lane) {
        const bool is = first + static_cast<std::uint32_t>(lane) < values;
        there[k][lane] = static_cast<Word>(Word{0} - static_cast<Word>(is));
      });
    }
    for (std::uint32_t number = 0; number < kLags; ++number) {
      const auto back = warp.lag_of(lag_of(number));
      std::uint32_t widths[2] = {0, 0};
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kSamples; ++k) {
        const auto earlier = warp.back(before[k], rows[k], back);
        LANESCOPE_UNROLL
        for (std::uint32_t turned = 0; turned < 2; ++turned) {
          Lanes<Warp, Word> codes;
          warp.each([&](int lane) {
            const Word code = zigzag(
                static_cast<Word>(turn(rows[k][lane], turned) - turn(earlier[lane], turned)));
            codes[lane] = static_cast<Word>(code & there[k][lane]);
          });
          widths[turned] += width_of(warp.any_bits(codes));
        }
      }
      judge(lag_of(number), 0, widths[0]);
      judge(lag_of(number), 1, widths[1]);
    }
    if constexpr (kWide) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kSamples; ++k)
        warp.each([&](int lane) {
          rows[k][lane] = turn(rows[k][lane], best.turned);
          before[k][lane] = turn(before[k][lane], best.turned);
        });
      best = refined(best, samples, SampleCosts<Warp>{warp, rows, before, there});
    }
#else
    std::uint32_t widths[kLags][2] = {};
    for (std::uint32_t sample = 0; sample < samples; ++sample)
      for (std::uint32_t turned = 0; turned < 2; ++turned)
        add_widths(warp, in, first_of(sample), values, turned, widths);
    for (std::uint32_t number = 0; number < kLags; ++number)
      for (std::uint32_t turned = 0; turned < 2; ++turned)
        judge(lag_of(number), turned, widths[number][turned]);
    if constexpr (kWide) {
      SampleRow<Warp> rows[kSamples];
      for (std::uint32_t sample = 0; sample < samples; ++sample)
        rows[sample] = SampleRow<Warp>(warp, in, first_of(sample), values, best.turned);
      best = refined(best, samples, SampleCosts<Warp>{warp, rows, samples});
    }
#endif
    return best;
  }

  /// Stores widths and planes of `kAtOnce` groups; the planes at `at`, which it moves behind them.
  template <typename Warp>
  LANESCOPE_LANES static void store_groups(Warp warp, typename Warp::Turns turns,
                                           const Lanes<Warp, Word>* codes, std::uint32_t group,
                                           std::uint8_t* out, std::uint32_t& at) {
    std::uint32_t width[kAtOnce], widths = 0;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      Lanes<Warp, Word> both = codes[k * kParts];
      if constexpr (kParts == 2)
        warp.each([&](int lane) {
          both[lane] = static_cast<Word>(both[lane] | codes[k * kParts + 1][lane]);
        });
      width[k] = width_of(warp.any_bits(both));
      widths |= width[k] << 8 * k;
    }
    store_widths(warp, widths, out + kHeader + group);
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      store_planes(warp, turns, codes + k * kParts, static_cast<int>(width[k]), out + at);
      at += width[k] * kParts * 4;
    }
  }

  /// The same of 64-bit values, of which halves of groups may have widths.
  template <typename Warp>
  LANESCOPE_LANES static void store_rows(Warp warp, typename Warp::Turns turns,
                                         const Lanes<Warp, Word>* codes, bool halves,
                                         std::uint32_t group, std::uint32_t groups,
                                         std::uint8_t* out, std::uint32_t& at) {
    Lanes<Warp, std::uint32_t> words[kAtOnce * 2];
    HalfRow rows[kAtOnce];
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      rows[k] = transposed_row(warp, turns, codes[k], words + 2 * k);
      if (!halves) rows[k].first = rows[k].second = rows[k].most();
    }
    store_row_widths(warp, rows, halves, groups - group,
                     out + kHeader + (group << (halves ? 1 : 0)));
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      rows[k].store(warp, halves, words + 2 * k, out + at);
      at += rows[k].bytes();
    }
  }

  /// Planes and widths of 32 codes. On a GPU lanes vote on their planes: that takes less than to
  /// bring together the bits of codes.
  template <typename Warp>
  LANESCOPE_LANES static HalfRow transposed_row(Warp warp, typename Warp::Turns turns,
                                                const Lanes<Warp, Word>& codes,
                                                Lanes<Warp, std::uint32_t>* words) {
    warp.each([&](int lane) { words[0][lane] = static_cast<std::uint32_t>(codes[lane]); });
    words[0] = warp.transpose(words[0], turns);
#ifndef LANESCOPE_ON_DEVICE
    Word first, second;
    warp.any_bits(codes, first, second);
    const HalfRow row{width_of(first), width_of(second)};
    if (row.most() <= kLanes) return row;
#endif
    warp.each([&](int lane) {
      words[1][lane] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(codes[lane]) >> 32);
    });
    words[1] = warp.transpose(words[1], turns);
#ifdef LANESCOPE_ON_DEVICE
    const auto width = [&](std::uint32_t mask) {
      const std::uint32_t low = warp.lanes_with(words[0], mask);
      const std::uint32_t high = warp.lanes_with(words[1], mask);
      return high != 0 ? kLanes + bit_length(high) : bit_length(low);
    };
    const HalfRow row{width(0xFFFF), width(0xFFFF0000)};
#endif
    return row;
  }

  /// Widths of `kAtOnce` groups, of which `left` or more are there.
  template <typename Warp>
  LANESCOPE_LANES static void store_row_widths(Warp warp, const HalfRow* rows, bool halves,
                                               [[maybe_unused]] std::uint32_t left,
                                               std::uint8_t* out) {
#ifdef LANESCOPE_ON_DEVICE  // All lanes the same: that takes no branch.
    std::uint32_t whole = 0, low = 0, high = 0;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      whole |= rows[k].first << 8 * k;
      (k < 2 ? low : high) |= (rows[k].first | rows[k].second << 8) << 16 * (k % 2);
    }
    warp.each([&](int) { store_word(out, halves ? low : whole); });
    if (halves && left > 2) warp.each([&](int) { store_word(out + 4, high); });
#else
    static_cast<void>(warp);
    out[0] = static_cast<std::uint8_t>(rows[0].first);
    if (halves) out[1] = static_cast<std::uint8_t>(rows[0].second);
#endif
  }

  template <typename Warp>
  LANESCOPE_LANES static void store_planes(Warp warp, typename Warp::Turns turns,
                                           const Lanes<Warp, Word>* parts, int width,
                                           std::uint8_t* out) {
    Lanes<Warp, std::uint32_t> words;
    if constexpr (sizeof(Word) == 2) {
      warp.each([&](int lane) {
        words[lane] = parts[0][lane] | static_cast<std::uint32_t>(parts[1][lane]) << 16;
      });
      words = warp.transpose(words, turns);
      store_first<16>(warp, out, words, 0, width);
      store_first<16>(warp, out + 4 * width, words, 16, width);
    } else {
      warp.each([&](int lane) { words[lane] = parts[0][lane]; });
      words = warp.transpose(words, turns);
      store_first<32>(warp, out, words, 0, width);
    }
  }

  /// Stores `count` lanes from `first` on. The host stores `most`, since that takes one step for
  /// any count: there is room up to the bound of a strip, and what follows is stored later.
  template <int most, typename Warp>
  LANESCOPE_LANES static void store_first(Warp warp, std::uint8_t* out,
                                          const Lanes<Warp, std::uint32_t>& words, int first,
                                          int count) {
#ifdef LANESCOPE_ON_DEVICE
    warp.store_some(out, words, first, count);
#else
    static_cast<void>(count);
    warp.store_some(out, words, first, most);
#endif
  }

  /// Loads planes of `kAtOnce` groups from `at` on, which it moves behind them. False where they do
  /// not lie in `bytes`.
  template <typename Warp>
  LANESCOPE_LANES static bool load_planes(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                          bool halves, std::uint32_t group, std::uint32_t groups,
                                          std::uint32_t& at, Planes<Warp>& planes) {
    if (kAhead && group >= groups) return true;
    if constexpr (kWide)
      return load_rows(warp, in, bytes, halves, group, groups, at, planes);
    else
      return load_groups(warp, in, bytes, group, groups, at, planes);
  }

  /// Those of other than 64-bit values.
  template <typename Warp>
  LANESCOPE_LANES static bool load_groups(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                          std::uint32_t group, std::uint32_t groups,
                                          std::uint32_t& at, Planes<Warp>& planes) {
    const std::uint32_t widths = load_widths(in + kHeader + group, groups - group);
    std::uint32_t begin[kAtOnce];
    bool possible = true;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      begin[k] = at;
      planes.width[k] = widths >> 8 * k & 0xFF;
      possible = possible && planes.width[k] <= kBits;
      at += planes.width[k] * kParts * 4;
    }
    if (!possible || at > bytes) return false;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      load_group(warp, in + begin[k], bytes - begin[k], static_cast<int>(planes.width[k]),
                 planes.words + k * kWords);
    return true;
  }

  /// Those of 64-bit values.
  template <typename Warp>
  LANESCOPE_LANES static bool load_rows(Warp warp, const std::uint8_t* in, std::uint32_t bytes,
                                        bool halves, std::uint32_t group, std::uint32_t groups,
                                        std::uint32_t& at, Planes<Warp>& planes) {
    HalfRow rows[kAtOnce];
    load_row_widths(in + kHeader + (group << (halves ? 1 : 0)), halves, groups - group, rows);
    std::uint32_t begin[kAtOnce];
    bool possible = true;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      begin[k] = at;
      planes.width[k] = rows[k].most();
      possible = possible && rows[k].possible();
      at += rows[k].bytes();
    }
    if (!possible || at > bytes) return false;
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k)
      rows[k].load(warp, halves, in + begin[k], bytes - begin[k], planes.words + k * kWords);
    return true;
  }

  /// Widths of the next `kAtOnce` of `left` groups, 0 where there are none.
  LANESCOPE_LANES static void load_row_widths(const std::uint8_t* in, bool halves,
                                              [[maybe_unused]] std::uint32_t left, HalfRow* rows) {
#ifdef LANESCOPE_ON_DEVICE
    const std::uint32_t told = load_word(in);
    std::uint32_t pairs[2] = {told, halves && left > 2 ? load_word(in + 4) : 0};
    if (!halves) {  // Each byte twice.
      pairs[0] = (told & 0xFF) * 0x0101 | (told >> 8 & 0xFF) * 0x01010000;
      pairs[1] = (told >> 16 & 0xFF) * 0x0101 | (told >> 24) * 0x01010000;
    }
    if (left < 4) {
      pairs[1] &= left == 3 ? 0xFFFF : 0;
      pairs[0] &= left == 1 ? 0xFFFF : 0xFFFFFFFF;
    }
    LANESCOPE_UNROLL
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      const std::uint32_t pair = pairs[k / 2] >> 16 * (k % 2);
      rows[k] = {pair & 0xFF, pair >> 8 & 0xFF};
    }
#else
    rows[0] = {in[0], in[halves ? 1 : 0]};
#endif
  }

  /// `there` bytes can be read.
  template <typename Warp>
  LANESCOPE_LANES static void load_group(Warp warp, const std::uint8_t* in, std::uint32_t there,
                                         int width, Lanes<Warp, std::uint32_t>* words) {
#ifndef LANESCOPE_ON_DEVICE
    if (there >= kGroup * sizeof(Word)) {
      if constexpr (sizeof(Word) == 2) {
        warp.template load_first<0, 16>(in, words[0], width);
        warp.template load_first<16, 16>(in + 4 * width, words[0], width);
      } else {
        warp.template load_first<0, 32>(in, words[0], width);
      }
      return;
    }
#endif
    static_cast<void>(there);
    warp.each([&](int lane) { words[0][lane] = 0; });
    if constexpr (sizeof(Word) == 2) {
      warp.load_some(in, words[0], 0, width);
      warp.load_some(in + 4 * width, words[0], 16, width);
    } else {
      warp.load_some(in, words[0], 0, width);
    }
  }

  /// The differences of a group, of which the planes were loaded.
  template <typename Warp>
  LANESCOPE_LANES static void take_planes(Warp warp, typename Warp::Turns turns,
                                          const Lanes<Warp, std::uint32_t>* planes,
                                          std::uint32_t width, Lanes<Warp, Word>* parts) {
    const Lanes<Warp, std::uint32_t> low = warp.transpose(planes[0], turns);
    if constexpr (sizeof(Word) == 2) {
      warp.each([&](int lane) {
        parts[0][lane] = zigzag_back(static_cast<Word>(low[lane]));
        parts[1][lane] = zigzag_back(static_cast<Word>(low[lane] >> 16));
      });
    } else if constexpr (sizeof(Word) == 4) {
      warp.each([&](int lane) { parts[0][lane] = zigzag_back(low[lane]); });
    } else {
      Lanes<Warp, std::uint32_t> high = planes[1];
#ifndef LANESCOPE_ON_DEVICE  // where a branch would keep the steps of groups apart
      if (width > kLanes)
#endif
        high = warp.transpose(high, turns);
      warp.each([&](int lane) {
        parts[0][lane] = zigzag_back(static_cast<Word>(high[lane]) << 32 | low[lane]);
      });
    }
    static_cast<void>(width);
  }

#ifndef LANESCOPE_ON_DEVICE
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
                     [&](int lane, Word sum) { out[lane] = turn_back(sum, 1); });
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
      warp.each([&](int lane) { out[lane] = turn_back(sums[lane], turned); });
    } else {
      warp.each([&](int lane) {
        if (first + static_cast<std::uint32_t>(lane) < values)
          out[lane] = turn_back(sums[lane], turned);
      });
    }
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
