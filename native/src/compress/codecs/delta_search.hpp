#pragma once

#include <cstdint>

#include "compress/codecs/delta_samples.hpp"
#include "compress/codecs/delta_shape.hpp"
#include "compress/half_rows.hpp"
#include "compress/warp.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Finds the predictor of a strip by a sample of its groups.
template <typename W>
struct DeltaSearch {
  using Word = W;
  using Shape = DeltaShape<Word>;
  using Predictor = typename Shape::Predictor;

  /// The lag, turned or not, with which a few groups become smallest; of 64-bit values also the
  /// order, and whether halves have widths. `room` has the bytes of the strip's bound, and may be
  /// written to.
  template <typename Warp>
  LANESCOPE_LANES static Predictor best_predictor(Warp warp, const Word* in, std::uint32_t values,
                                                  [[maybe_unused]] std::uint8_t* room) {
    const std::uint32_t groups = Shape::groups_of(values);
    const std::uint32_t samples = groups < kSamples ? groups : kSamples;
#ifdef LANESCOPE_ON_DEVICE
    if constexpr (Shape::kWide)
      if (groups >= DeltaSamples<Word>::kFewestGroups) return best_of_long(warp, in, groups, room);
#endif
    const auto first_of = [&](std::uint32_t sample) {  // Where every group is one: itself.
      return (samples < kSamples ? sample : (2 * sample + 1) * groups / (2 * kSamples)) *
             Shape::kGroup;
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
      rows[k] = Shape::load_row(warp, in, first, values);
      before[k] =
          Shape::load_row(warp, in, first - kLanes, first >= kLanes && k < samples ? values : 0);
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
            const Word code = Shape::zigzag(static_cast<Word>(Shape::turn(rows[k][lane], turned) -
                                                              Shape::turn(earlier[lane], turned)));
            codes[lane] = static_cast<Word>(code & there[k][lane]);
          });
          widths[turned] += Shape::width_of(warp.any_bits(codes));
        }
      }
      judge(lag_of(number), 0, widths[0]);
      judge(lag_of(number), 1, widths[1]);
      if (least == 0) return best;  // as all of the sample are 0, with no lag in fewer bits
    }
    if constexpr (Shape::kWide) {
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kSamples; ++k)
        warp.each([&](int lane) {
          rows[k][lane] = Shape::turn(rows[k][lane], best.turned);
          before[k][lane] = Shape::turn(before[k][lane], best.turned);
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
    if constexpr (Shape::kWide) {
      SampleRow<Warp> rows[kSamples];
      for (std::uint32_t sample = 0; sample < samples; ++sample)
        rows[sample] = SampleRow<Warp>(warp, in, first_of(sample), values, best.turned);
      best = refined(best, samples, SampleCosts<Warp>{warp, rows, samples});
    }
#endif
    return best;
  }

 private:
  template <typename Warp, typename T>
  using Lanes = typename Warp::template Lanes<T>;

  static constexpr std::uint32_t kLags = 10;
  static constexpr std::uint32_t kLagsTwice = 9;  ///< Of which twice the lag is 32 at most.
  static constexpr std::uint32_t kSamples = 8;

  /// The lags that are tried: 1 to 8, 16 and 32.
  LANESCOPE_LANES static constexpr std::uint32_t lag_of(std::uint32_t number) {
    return number < 8 ? number + 1 : 16U << (number - 8);
  }

  /// What a few groups cost.
  struct Cost {
    std::uint32_t halves = 0;  // Widths of halves, added up.
    std::uint32_t whole = 0;   // Of groups.

    LANESCOPE_LANES void add(Word first, Word second) {
      const HalfRow row{Shape::width_of(first), Shape::width_of(second)};
      halves += row.first + row.second;
      whole += row.most();
    }
  };

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
        at[i] = Shape::turn(in[first + i - kLanes], turned);
    }

    template <std::uint32_t order>
    Lanes<Warp, Word> codes(Warp warp, std::uint32_t lag) const {
      Lanes<Warp, Word> codes;
      const Word* now = at + kLanes;
      warp.each([&](int lane) {
        codes[lane] = Shape::zigzag(Shape::template difference<order>(
            [&](std::uint32_t back) { return (now - back)[lane]; }, lag));
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
          Shape::width_of(warp.any_bits(row.template codes<1>(warp, lag_of(number))));
  }

  template <typename Warp>
  struct SampleCosts {
    Warp warp;
    const SampleRow<Warp>* rows;
    std::uint32_t samples;

    static constexpr std::uint32_t kAtOnce = 1;

    template <std::uint32_t order>
    void of(const std::uint32_t (&lags)[1], Cost (&found)[1]) const {
      for (std::uint32_t k = 0; k < samples; ++k) {
        Word first, second;
        warp.any_bits(rows[k].template codes<order>(warp, lags[0]), first, second);
        found[0].add(first, second);
      }
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

    static constexpr std::uint32_t kAtOnce = 1;

    template <std::uint32_t order>
    LANESCOPE_LANES void of(const std::uint32_t (&lags)[1], Cost (&found)[1]) const {
      typename Warp::Lag back[order];
      LANESCOPE_UNROLL
      for (std::uint32_t n = 0; n < order; ++n) back[n] = warp.lag_of((n + 1) * lags[0]);
      Cost& cost = found[0];
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
          const Word code = Shape::zigzag(
              Shape::template difference<order>([&](std::uint32_t n) { return values[n]; }, 1));
          codes[lane] = static_cast<Word>(code & there[k][lane]);
        });
        Word first, second;
        warp.any_bits(codes, first, second);
        cost.add(first, second);
      }
    }
  };
#endif

#ifdef LANESCOPE_ON_DEVICE
  /// Lags that a GPU tries at once: what lanes tell each other of one is on its way with the other.
  static constexpr std::uint32_t kLagsAtOnce = 2;

  /// The same for 64-bit values of which all groups of the sample are whole, and have 32 values
  /// before them.
  template <typename Warp>
  LANESCOPE_LANES static Predictor best_of_long(Warp warp, const Word* in, std::uint32_t groups,
                                                std::uint8_t* room) {
    static_assert(kLags % kLagsAtOnce == 0);
    DeltaSamples<Word> samples(warp, in, groups, room);
    Predictor best{1, 0};
    std::uint32_t least = ~std::uint32_t{0};
    LANESCOPE_NOT_UNROLLED
    for (std::uint32_t number = 0; number < kLags; number += kLagsAtOnce) {
      std::uint32_t lags[kLagsAtOnce], widths[kLagsAtOnce];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kLagsAtOnce; ++k) lags[k] = lag_of(number + k);
      samples.widths(warp, lags, widths);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kLagsAtOnce; ++k) {
        LANESCOPE_UNROLL
        for (std::uint32_t turned = 0; turned < 2; ++turned) {
          const std::uint32_t found = widths[k] >> 16 * turned & 0xFFFF;
          if (found < least) best = {lags[k], turned};
          least = found < least ? found : least;
        }
      }
      if (least == 0) return best;  // No later one takes fewer bits.
    }
    if (best.turned != 0) samples.turn(warp);
    best = refined(best, kSamples, LongCosts<Warp>{warp, samples});
    warp.sync();  // Where samples were, the strip comes.
    return best;
  }

  template <typename Warp>
  struct LongCosts {
    Warp warp;
    const DeltaSamples<Word>& samples;

    static constexpr std::uint32_t kAtOnce = 3;

    template <std::uint32_t order, std::uint32_t count>
    LANESCOPE_LANES void of(const std::uint32_t (&lags)[count], Cost (&found)[count]) const {
      std::uint32_t costs[count];
      samples.template costs<order>(warp, lags, costs);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < count; ++k) found[k] = {costs[k] & 0xFFFF, costs[k] >> 16};
    }
  };
#endif

  template <std::uint32_t order, typename Costs>
  LANESCOPE_LANES static Cost cost_of(const Costs& cost, std::uint32_t lag) {
    const std::uint32_t lags[1] = {lag};
    Cost found[1];
    cost.template of<order>(lags, found);
    return found[0];
  }

  /// Of 64-bit values, finds out about order, the lag for it, and halves; turned or not, and the
  /// lag of order 1, are those of `one`. `cost` has a function `of<order>(lags, found)`, of
  /// `kAtOnce` lags at once, or of one.
  template <typename Costs>
  LANESCOPE_LANES static Predictor refined(const Predictor& one, std::uint32_t samples,
                                           const Costs& cost) {
    Predictor best{1, one.turned, 2};
    Cost least{~std::uint32_t{0}, 0};
    constexpr std::uint32_t kAtOnce = Costs::kAtOnce;
    static_assert(2 * lag_of(kLagsTwice - 1) <= kLanes && kLagsTwice % kAtOnce == 0);
    LANESCOPE_NOT_UNROLLED
    for (std::uint32_t number = 0; number < kLagsTwice; number += kAtOnce) {
      std::uint32_t lags[kAtOnce];
      Cost found[kAtOnce];
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k) lags[k] = lag_of(number + k);
      cost.template of<2>(lags, found);
      LANESCOPE_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        if (found[k].halves >= least.halves) continue;
        least = found[k];
        best.lag = lags[k];
      }
    }
    if (3 * best.lag <= kLanes) {
      const Cost found = cost_of<3>(cost, best.lag);
      if (found.halves < least.halves) {
        least = found;
        best.order = 3;
      }
    }
    const Cost found = cost_of<1>(cost, one.lag);
    if (found.halves <= least.halves) {
      least = found;
      best = one;
    }
    // A width is a byte, and a bit of it 2 bytes in half a group.
    best.halves = 2 * least.halves + samples < 4 * least.whole;
    return best;
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
