#pragma once

#include <cstdint>
#include <cstring>

#include "compress/lanes.hpp"
#if defined(__GNUC__) && !defined(__CUDACC__)
#include "compress/host_transpose.hpp"
#define LANESCOPE_HOST_TRANSPOSE
#endif

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

inline constexpr int kLanes = 32;

/// 32 lanes in step, on the host: each value is an array, and each step a loop over the lanes.
///
/// A codec is a template over this class and over one of the same shape for a GPU, where a warp is
/// 32 threads and each of them holds its own lane's value. So it says `each` for what every lane
/// does by itself, and calls one of the others where lanes look at each other.
struct HostWarp {
  template <typename T>
  struct Lanes {
    T at[kLanes];  // Holds nothing until it is written, as a register.
    T& operator[](int lane) { return at[lane]; }
    const T& operator[](int lane) const { return at[lane]; }
  };

  /// Calls `step(lane)` for every lane.
  template <typename Step>
  void each(Step step) const {
    for (int lane = 0; lane < kLanes; ++lane) step(lane);
  }

  /// All lanes' bits together.
  template <typename T>
  T any_bits(const Lanes<T>& values) const {
    T bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits |= values[lane];
    return bits;
  }

  /// The bits of the first 16 lanes together, and those of the others.
  template <typename T>
  void any_bits(const Lanes<T>& values, T& first, T& second) const {
    first = second = 0;
    for (int lane = 0; lane < kLanes / 2; ++lane) {
      first |= values[lane];
      second |= values[lane + kLanes / 2];
    }
  }

  /// Bit l tells whether lane l has any of the bits of `mask`.
  std::uint32_t lanes_with(const Lanes<std::uint32_t>& values, std::uint32_t mask) const {
    std::uint32_t lanes = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      lanes |= static_cast<std::uint32_t>((values[lane] & mask) != 0) << lane;
    return lanes;
  }

  /// The sum over the lanes before each one; `total` gets that of all.
  Lanes<std::uint32_t> sum_before(const Lanes<std::uint32_t>& values, std::uint32_t& total) const {
    Lanes<std::uint32_t> sums;
    total = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      sums[lane] = total;
      total += values[lane];
    }
    return sums;
  }

  std::uint32_t sum_of_all(const Lanes<std::uint32_t>& values) const {
    std::uint32_t total = 0;
    for (int lane = 0; lane < kLanes; ++lane) total += values[lane];
    return total;
  }

  /// The same as `sum_before` for values of a few bits. On a GPU lanes vote on each bit: no step
  /// waits for another.
  template <int bits>
  Lanes<std::uint32_t> sum_bits_before(const Lanes<std::uint32_t>& values,
                                       std::uint32_t& total) const {
    return sum_before(values, total);
  }

  /// What the lane `source[lane]` has, for every lane.
  template <typename T>
  Lanes<T> from(const Lanes<T>& values, const Lanes<int>& source) const {
    Lanes<T> got;
    for (int lane = 0; lane < kLanes; ++lane) got[lane] = values[source[lane]];
    return got;
  }

  /// The largest one of all lanes.
  template <typename T>
  T most(const Lanes<T>& values) const {
    T most = 0;
    for (int lane = 0; lane < kLanes; ++lane) most = values[lane] > most ? values[lane] : most;
    return most;
  }

  /// What is found out but once for transpositions, on a GPU.
  struct Turns {};
  Turns turns() const { return {}; }

  /// 32 x 32 bits turned over: bit l of lane p is what bit p of lane l was. On a GPU five steps of
  /// shuffles, each of which swaps blocks of half the size.
  ///
  /// Here each step takes lanes 16 apart and puts them side by side after it: so all five look the
  /// same to a vectorising compiler, and lanes are in order again at the end.
  Lanes<std::uint32_t> transpose(Lanes<std::uint32_t> rows, Turns) const {
    Lanes<std::uint32_t> next;
#ifdef LANESCOPE_HOST_TRANSPOSE
    transpose_bits(rows.at, next.at);
#else
    swap_blocks<16>(rows, next, 0x0000FFFF);
    swap_blocks<8>(next, rows, 0x00FF00FF);
    swap_blocks<4>(rows, next, 0x0F0F0F0F);
    swap_blocks<2>(next, rows, 0x33333333);
    swap_blocks<1>(rows, next, 0x55555555);
#endif
    return next;
  }

  /// How far back `add_up` adds, 1 to 32. On a GPU also what has to be found out but once.
  struct Lag {
    int lag;
  };
  Lag lag_of(std::uint32_t lag) const { return {static_cast<int>(lag)}; }

  /// Each lane's value added to that of the lane `lag` before it, after that one's was; the first
  /// ones to the last ones of `before`. On a GPU a scan: steps of lag, 2 lag, ...
  template <typename T>
  Lanes<T> add_up(const Lanes<T>& values, const Lanes<T>& before, Lag back) const {
    const int lag = back.lag;
    Lanes<T> sums;
    if (lag == 1) {
      T sum = before[kLanes - 1];
      for (int lane = 0; lane < kLanes; ++lane)
        sums[lane] = sum = static_cast<T>(sum + values[lane]);
      return sums;
    }
    for (int lane = 0; lane < lag; ++lane)
      sums[lane] = static_cast<T>(values[lane] + before[kLanes - lag + lane]);
    for (int lane = lag; lane < kLanes; ++lane)
      sums[lane] = static_cast<T>(values[lane] + sums[lane - lag]);
    return sums;
  }

  /// The same for rows that follow each other; `before` is then the last one. On a GPU their scans
  /// overlap.
  template <int count, typename T>
  void add_up(Lanes<T>* rows, Lanes<T>& before, Lag back) const {
    for (int row = 0; row < count; ++row) rows[row] = before = add_up(rows[row], before, back);
  }

  /// Only here: the same, with `give(lane, sum)` for each lane; `before` is then the sums.
  template <typename T, typename Give>
  void add_up_to(const Lanes<T>& values, Lanes<T>& before, std::uint32_t lag, Give give) const {
    switch (lag) {
      case 1:
        return add_up_by<1>(values, before, give);
      case 2:
        return add_up_by<2>(values, before, give);
      case 3:
        return add_up_by<3>(values, before, give);
      case 4:
        return add_up_by<4>(values, before, give);
      case 5:
        return add_up_by<5>(values, before, give);
      case 6:
        return add_up_by<6>(values, before, give);
      case 7:
        return add_up_by<7>(values, before, give);
      case 8:
        return add_up_by<8>(values, before, give);
      default:
        before = add_up(values, before, lag_of(lag));
        each([&](int lane) { give(lane, before[lane]); });
    }
  }

  /// Stores lanes `first` to `first + count - 1` in a row; `at` is a multiple of 4.
  void store_some(void* at, const Lanes<std::uint32_t>& words, int first, int count) const {
    std::memcpy(at, words.at + first, static_cast<std::size_t>(count) * 4);
  }

  /// Loads what `store_some` stored into the same lanes of `words`.
  void load_some(const void* at, Lanes<std::uint32_t>& words, int first, int count) const {
    std::memcpy(words.at + first, at, static_cast<std::size_t>(count) * 4);
  }

  /// Only here: loads `count` of `most` words, which can all be read, into lanes from `first` on; 0
  /// into the others of them.
  template <int first, int most>
  void load_first(const void* at, Lanes<std::uint32_t>& words, int count) const {
    std::uint32_t all[most];
    std::memcpy(all, at, sizeof all);
    for (int i = 0; i < most; ++i) words[first + i] = i < count ? all[i] : 0;
  }

  /// Counts one more where other lanes may do so, too. On a GPU atomic.
  void count_one(std::uint32_t* at) const { ++*at; }

  /// Waits until what lanes wrote to memory can be read by the others.
  void sync() const {}

 private:
  /// `add_up_to`, with the last sums in registers.
  template <int lag, typename T, typename Give>
  static void add_up_by(const Lanes<T>& values, Lanes<T>& before, Give give) {
    T last[lag];
    for (int i = 0; i < lag; ++i) last[i] = before[kLanes - lag + i];
    LANESCOPE_UNROLLED
    for (int lane = 0; lane < kLanes; ++lane) {
      T& sum = last[lane % lag];
      sum = static_cast<T>(sum + values[lane]);
      give(lane, sum);
    }
    for (int lane = kLanes - lag; lane < kLanes; ++lane) before[lane] = last[lane % lag];
  }

  template <int apart>
  static void swap_blocks(const Lanes<std::uint32_t>& rows, Lanes<std::uint32_t>& next,
                          std::uint32_t mask) {
    LANESCOPE_ROLLED  // GCC would unroll all 16 steps before it looks for vectors.
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t swapped = ((rows[i] >> apart) ^ rows[i + 16]) & mask;
      next[2 * i] = rows[i] ^ (swapped << apart);
      next[2 * i + 1] = rows[i + 16] ^ swapped;
    }
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
