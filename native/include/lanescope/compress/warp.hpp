#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "lanescope/compress/lanes.hpp"

namespace lanescope::compress {

inline constexpr int kLanes = 32;

/// 32 lanes in step, on the host: each value is an array, and each step a loop over the lanes.
///
/// A codec is a template over this class and over one of the same shape for a GPU, where a warp is
/// 32 threads and each of them holds its own lane's value. So it says `each` for what every lane
/// does by itself, and calls one of the others where lanes look at each other.
struct HostWarp {
  template <typename T>
  struct Lanes {
    std::array<T, kLanes> at;  // Holds nothing until it is written, as a register.
    T& operator[](int lane) { return at[static_cast<std::size_t>(lane)]; }
    const T& operator[](int lane) const { return at[static_cast<std::size_t>(lane)]; }
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

  /// The same for values of a few bits. On a GPU lanes vote on each bit: no step waits for another.
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
  std::uint32_t most(const Lanes<std::uint32_t>& values) const {
    return *std::max_element(values.at.begin(), values.at.end());
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
    swap_blocks<16>(rows, next, 0x0000FFFF);
    swap_blocks<8>(next, rows, 0x00FF00FF);
    swap_blocks<4>(rows, next, 0x0F0F0F0F);
    swap_blocks<2>(next, rows, 0x33333333);
    swap_blocks<1>(rows, next, 0x55555555);
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

  /// Stores lanes `first` to `first + count - 1` in a row; `at` is a multiple of 4.
  void store_some(void* at, const Lanes<std::uint32_t>& words, int first, int count) const {
    std::memcpy(at, words.at.data() + first, static_cast<std::size_t>(count) * 4);
  }

  /// Loads what `store_some` stored into the same lanes of `words`.
  void load_some(const void* at, Lanes<std::uint32_t>& words, int first, int count) const {
    std::memcpy(words.at.data() + first, at, static_cast<std::size_t>(count) * 4);
  }

  /// Counts one more where other lanes may do so, too. On a GPU atomic.
  void count_one(std::uint32_t* at) const { ++*at; }

  /// Waits until what lanes wrote to memory can be read by the others.
  void sync() const {}

 private:
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

}  // namespace lanescope::compress
