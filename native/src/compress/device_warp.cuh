#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "compress/warp.hpp"

namespace lanescope::compress {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

/// 32 lanes in step, on a GPU: a thread is a lane, and holds its own value alone. What `Lanes` are
/// indexed by is the lane itself, and only says so; `from` looks at others.
struct DeviceWarp {
  template <typename T>
  struct Lanes {
    T value;
    __device__ __forceinline__ T& operator[](int) { return value; }
    __device__ __forceinline__ const T& operator[](int) const { return value; }
  };

  int lane;

  __device__ static DeviceWarp mine() { return {static_cast<int>(threadIdx.x % kLanes)}; }

  template <typename Step>
  __device__ __forceinline__ void each(Step step) const {
    step(lane);
  }

  template <typename T>
  __device__ __forceinline__ T any_bits(const Lanes<T>& values) const {
    if constexpr (sizeof(T) == 8)
      return static_cast<T>(any_of(static_cast<std::uint32_t>(values.value >> 32))) << 32 |
             any_of(static_cast<std::uint32_t>(values.value));
    else
      return static_cast<T>(any_of(values.value));
  }

  template <typename T>
  __device__ __forceinline__ void any_bits(const Lanes<T>& values, T& first, T& second) const {
    const bool lower = lane < kLanes / 2;
    first = any_bits(Lanes<T>{lower ? values.value : T{0}});
    second = any_bits(Lanes<T>{lower ? T{0} : values.value});
  }

  __device__ __forceinline__ std::uint32_t lanes_with(const Lanes<std::uint32_t>& values,
                                                      std::uint32_t mask) const {
    return __ballot_sync(kAllLanes, (values.value & mask) != 0);
  }

  __device__ __forceinline__ Lanes<std::uint32_t> sum_before(const Lanes<std::uint32_t>& values,
                                                             std::uint32_t& total) const {
    std::uint32_t sum = values.value;
#pragma unroll
    for (int apart = 1; apart < kLanes; apart *= 2) {
      const std::uint32_t before = __shfl_up_sync(kAllLanes, sum, apart);
      if (lane >= apart) sum += before;
    }
    total = __shfl_sync(kAllLanes, sum, kLanes - 1);
    return {sum - values.value};
  }

  __device__ __forceinline__ std::uint32_t sum_of_all(const Lanes<std::uint32_t>& values) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAllLanes, values.value);
#else
    std::uint32_t total;
    static_cast<void>(sum_before(values, total));
    return total;
#endif
  }

  template <int bits>
  __device__ __forceinline__ Lanes<std::uint32_t> sum_bits_before(
      const Lanes<std::uint32_t>& values, std::uint32_t& total) const {
    const std::uint32_t lower = (1U << lane) - 1;
    std::uint32_t before = 0;
    total = 0;
#pragma unroll
    for (int bit = 0; bit < bits; ++bit) {
      const std::uint32_t votes = __ballot_sync(kAllLanes, (values.value & 1U << bit) != 0);
      before += static_cast<std::uint32_t>(__popc(votes & lower)) << bit;
      total += static_cast<std::uint32_t>(__popc(votes)) << bit;
    }
    return {before};
  }

  template <typename T>
  __device__ __forceinline__ Lanes<T> from(const Lanes<T>& values, const Lanes<int>& source) const {
    return {__shfl_sync(kAllLanes, values.value, source.value)};
  }

  template <typename T>
  __device__ __forceinline__ T most(const Lanes<T>& values) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (sizeof(T) == 4) return __reduce_max_sync(kAllLanes, values.value);
    if constexpr (sizeof(T) == 8) {  // The upper halves first, and then the lower ones of those.
      const auto upper = static_cast<std::uint32_t>(values.value >> 32);
      const std::uint32_t top = __reduce_max_sync(kAllLanes, upper);
      const auto lower = upper == top ? static_cast<std::uint32_t>(values.value) : 0;
      return static_cast<T>(top) << 32 | __reduce_max_sync(kAllLanes, lower);
    }
#endif
    Movable<T> largest = values.value;
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
      const Movable<T> other = __shfl_xor_sync(kAllLanes, largest, apart);
      largest = other > largest ? other : largest;
    }
    return static_cast<T>(largest);
  }

  /// What a lane does in the steps of a transposition: bytes that it takes, 0 to 3 of its own row
  /// and 4 to 7 of the other; bits that it keeps, and how far it turns those of the other row.
  struct Turns {
    std::uint32_t taken[2];
    std::uint32_t kept[3];
    std::uint32_t turn[3];
  };
  __device__ __forceinline__ Turns turns() const {
    Turns turns;
    turns.taken[0] = held((lane & 16) != 0 ? 0x3276 : 0x5410);
    turns.taken[1] = held((lane & 8) != 0 ? 0x3715 : 0x6240);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const int apart = 4 >> k;
      const std::uint32_t low = k == 0 ? 0x0F0F0F0F : k == 1 ? 0x33333333 : 0x55555555;
      turns.kept[k] = held((lane & apart) != 0 ? ~low : low);
      turns.turn[k] =
          held(static_cast<std::uint32_t>((lane & apart) != 0 ? kLanes - apart : apart));
    }
    return turns;
  }

  /// Each step swaps blocks of half the size with a lane that lies as far away as they are wide.
  /// Where these are whole bytes, one instruction takes what is kept and what comes to its place.
  __device__ __forceinline__ Lanes<std::uint32_t> transpose(Lanes<std::uint32_t> rows,
                                                            const Turns& turns) const {
    std::uint32_t row = rows.value;
#pragma unroll
    for (int k = 0; k < 2; ++k)
      row = __byte_perm(row, __shfl_xor_sync(kAllLanes, row, 16 >> k), turns.taken[k]);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, row, 4 >> k);
      row = choose(turns.kept[k], row, __funnelshift_l(other, other, turns.turn[k]));
    }
    return {row};
  }

  /// The same for `transpose` of four groups of 8 lanes at once: rows 4 to a lane.
  struct QuadTurns {
    std::uint32_t taken[2];
    std::uint32_t kept, turn;
  };
  __device__ __forceinline__ QuadTurns quad_turns() const {
    return {{held((lane & 4) != 0 ? 0x3276 : 0x5410), held((lane & 2) != 0 ? 0x3715 : 0x6240)},
            held((lane & 1) != 0 ? 0xF0F0F0F0 : 0x0F0F0F0F),
            held((lane & 1) != 0 ? kLanes - 4 : 4)};
  }

  /// 32 x 32 bits of each of four groups turned over: of a group, lane l of its 8 has rows 4 l to
  /// 4 l + 3, and then as many of what they became. Two of the five steps take no shuffle.
  __device__ __forceinline__ void transpose(std::uint32_t (&rows)[4],
                                            const QuadTurns& turns) const {
    swap_lanes<4>(rows, turns);
    swap_lanes<2>(rows, turns);
    swap_lanes<1>(rows, turns);
    swap_rows(rows);
  }

  /// The steps of that, for who has to do something else between them: with the lane that lies so
  /// far away, 4, 2 and 1, and then of a lane's own rows.
  template <int apart>
  __device__ __forceinline__ void swap_lanes(std::uint32_t (&rows)[4],
                                             const QuadTurns& turns) const {
#pragma unroll
    for (auto& row : rows) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, row, apart);
      if constexpr (apart == 1)
        row = choose(turns.kept, row, __funnelshift_l(other, other, turns.turn));
      else
        row = __byte_perm(row, other, turns.taken[apart == 4 ? 0 : 1]);
    }
  }
  __device__ __forceinline__ static void swap_rows(std::uint32_t (&rows)[4]) {
    swap_bits<2>(rows[0], rows[2], 0x33333333);
    swap_bits<2>(rows[1], rows[3], 0x33333333);
    swap_bits<1>(rows[0], rows[1], 0x55555555);
    swap_bits<1>(rows[2], rows[3], 0x55555555);
  }

  /// What another lane has.
  template <typename T>
  __device__ __forceinline__ T of_lane(T value, int source) const {
    return static_cast<T>(__shfl_sync(kAllLanes, static_cast<Movable<T>>(value), source));
  }

  /// What the lane has whose number differs in the bits of `bits`.
  template <typename T>
  __device__ __forceinline__ T across(T value, int bits) const {
    return static_cast<T>(__shfl_xor_sync(kAllLanes, static_cast<Movable<T>>(value), bits));
  }

  /// The sum of all lanes' values up to this one's.
  template <typename T>
  __device__ __forceinline__ T sum_up_to(T value) const {
    Movable<T> sums[1] = {value};
#pragma unroll
    for (int apart = 1; apart < kLanes; apart *= 2) add_from(sums, apart);
    return static_cast<T>(sums[0]);
  }

  /// The larger one of each 16 bits.
  __device__ __forceinline__ static std::uint32_t most_of_pairs(std::uint32_t one,
                                                                std::uint32_t other) {
#ifdef LANESCOPE_EMULATED
    const std::uint32_t low = std::max(one & 0xFFFF, other & 0xFFFF);
    return std::max(one >> 16, other >> 16) << 16 | low;
#else
    return __vmaxu2(one, other);
#endif
  }

  /// The sum of a word's four bytes.
  __device__ __forceinline__ static std::uint32_t sum_of_bytes(std::uint32_t word) {
#ifdef LANESCOPE_EMULATED
    return (word & 0xFF) + (word >> 8 & 0xFF) + (word >> 16 & 0xFF) + (word >> 24);
#else
    return __dp4a(word, 0x01010101U, 0U);
#endif
  }

  struct Lag {
    int lag;
    int source;  ///< The lane of the row before whose value comes to this one's sum.
  };
  __device__ __forceinline__ Lag lag_of(std::uint32_t lag) const {
    const int back = static_cast<int>(lag);
    return {back, kLanes - back + lane % back};
  }

  /// Rows are scanned each by itself, all at once. What one hands to the next then takes a shuffle
  /// only where lanes of a row do not stand for the same sums as those of the next.
  template <int count, typename T>
  __device__ __forceinline__ void add_up(Lanes<T>* rows, Lanes<T>& before, Lag back) const {
    using Moved = Movable<T>;
    Moved sums[count], ends[count];
#pragma unroll
    for (int k = 0; k < count; ++k) sums[k] = rows[k].value;
#pragma unroll 1
    for (int apart = back.lag; apart < kLanes; apart *= 2) add_from(sums, apart);
    Moved carried = __shfl_sync(kAllLanes, static_cast<Moved>(before.value), back.source);
    if ((back.lag & (back.lag - 1)) == 0) {  // It divides 32.
#pragma unroll
      for (int k = 0; k < count; ++k) ends[k] = __shfl_sync(kAllLanes, sums[k], back.source);
#pragma unroll
      for (int k = 0; k < count; ++k) {
        sums[k] += carried;
        carried += ends[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < count; ++k) {
        sums[k] += carried;
        carried = __shfl_sync(kAllLanes, sums[k], back.source);
      }
    }
#pragma unroll
    for (int k = 0; k < count; ++k) rows[k].value = static_cast<T>(sums[k]);
    before = rows[count - 1];
  }

  /// The value that lies so far back, in this row or the one before.
  template <typename T>
  __device__ __forceinline__ Lanes<T> back(const Lanes<T>& before, const Lanes<T>& row,
                                           Lag back) const {
    const Movable<T> offered = lane >= kLanes - back.lag ? before.value : row.value;
    return {static_cast<T>(__shfl_sync(kAllLanes, offered, lane - back.lag + kLanes))};
  }

  __device__ __forceinline__ void store_some(void* at, const Lanes<std::uint32_t>& words, int first,
                                             int count) const {
    const int number = lane - first;
    if (number >= 0 && number < count) static_cast<std::uint32_t*>(at)[number] = words.value;
  }

  __device__ __forceinline__ void load_some(const void* at, Lanes<std::uint32_t>& words, int first,
                                            int count) const {
    const int number = lane - first;
    if (number >= 0 && number < count) words.value = static_cast<const std::uint32_t*>(at)[number];
  }

  /// `at` lies in shared memory.
  __device__ __forceinline__ void count_one(std::uint32_t* at) const { atomicAdd(at, 1U); }

  __device__ __forceinline__ void sync() const { __syncwarp(); }

 private:
  /// What shuffles take; `std::uint16_t` they do not.
  template <typename T>
  using Movable = std::conditional_t<sizeof(T) == 8, unsigned long long, std::uint32_t>;

  /// Adds to each sum that of the lane so far before, where there is one.
  template <int count, typename Sum>
  __device__ __forceinline__ void add_from(Sum (&sums)[count], int apart) const {
    const std::uint32_t is = lane >= apart ? 1 : 0;
    Sum others[count];
#pragma unroll
    for (int k = 0; k < count; ++k) others[k] = __shfl_up_sync(kAllLanes, sums[k], apart);
#pragma unroll
    for (int k = 0; k < count; ++k) {
#ifndef LANESCOPE_EMULATED
      if constexpr (sizeof(Sum) == 4) {  // One instruction; the compiler would make two.
        asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(sums[k]) : "r"(others[k]), "r"(is));
        continue;
      }
#endif
      if (is != 0) sums[k] += others[k];
    }
  }

  __device__ __forceinline__ static std::uint32_t any_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kAllLanes, bits);
#else
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2)
      bits |= __shfl_xor_sync(kAllLanes, bits, apart);
    return bits;
#endif
  }

  /// Swaps the bits of `low` beyond those of `mask` and those of `high` that it has.
  template <int apart>
  __device__ __forceinline__ static void swap_bits(std::uint32_t& low, std::uint32_t& high,
                                                   std::uint32_t mask) {
    const std::uint32_t first = choose(mask, low, high << apart);
    high = choose(mask, low >> apart, high);
    low = first;
  }

  /// The same value, of which the compiler does not know how it came about: so it keeps it over a
  /// loop, and does not find it out again in each round.
  __device__ __forceinline__ static std::uint32_t held(std::uint32_t value) {
#ifndef LANESCOPE_EMULATED
    asm volatile("" : "+r"(value));
#endif
    return value;
  }

  /// Bits of `one` where `mask` has them, else of `other`. Said as one instruction: from the parts
  /// of masks that depend on the lane, the compiler would make three of it.
  __device__ __forceinline__ static std::uint32_t choose(std::uint32_t mask, std::uint32_t one,
                                                         std::uint32_t other) {
#ifdef LANESCOPE_EMULATED
    return (one & mask) | (other & ~mask);
#else
    std::uint32_t chosen;
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(chosen) : "r"(mask), "r"(one), "r"(other));
    return chosen;
#endif
  }
};

}  // namespace lanescope::compress
