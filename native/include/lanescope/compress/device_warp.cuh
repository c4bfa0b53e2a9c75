#pragma once

#include <cstdint>
#include <type_traits>

#include "lanescope/compress/warp.hpp"

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

  template <typename T>
  __device__ __forceinline__ Lanes<T> from(const Lanes<T>& values, const Lanes<int>& source) const {
    return {__shfl_sync(kAllLanes, values.value, source.value)};
  }

  __device__ __forceinline__ std::uint32_t most(const Lanes<std::uint32_t>& values) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, values.value);
#else
    std::uint32_t largest = values.value;
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, largest, apart);
      largest = other > largest ? other : largest;
    }
    return largest;
#endif
  }

  /// Each step swaps blocks of half the size with a lane that lies as far away as they are wide.
  /// Where these are whole bytes, one instruction takes what is kept and what comes to its place.
  __device__ __forceinline__ Lanes<std::uint32_t> transpose(Lanes<std::uint32_t> rows) const {
    std::uint32_t row = rows.value;
    row = swap_bytes<16>(row, 0x5410, 0x3276);
    row = swap_bytes<8>(row, 0x6240, 0x3715);
    row = swap_blocks<4>(row, 0x0F0F0F0F);
    row = swap_blocks<2>(row, 0x33333333);
    return {swap_blocks<1>(row, 0x55555555)};
  }

  struct Lag {
    int lag;
    int source;  ///< The lane of the row before whose value comes to this one's sum.
  };
  __device__ __forceinline__ Lag lag_of(std::uint32_t lag) const {
    const int back = static_cast<int>(lag);
    return {back, kLanes - back + lane % back};
  }

  template <typename T>
  __device__ __forceinline__ Lanes<T> add_up(const Lanes<T>& values, const Lanes<T>& before,
                                             Lag back) const {
    using Moved = Movable<T>;
    Moved sum = values.value;
    int apart = back.lag;
#pragma unroll
    for (int step = 0; step < 5; ++step) {  // Those that are too long find nothing.
      const Moved other = __shfl_up_sync(kAllLanes, sum, apart);
      if (lane >= apart) sum += other;
      apart *= 2;
    }
    sum += __shfl_sync(kAllLanes, static_cast<Moved>(before.value), back.source);
    return {static_cast<T>(sum)};
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

  /// `lower` and `upper`: bytes of the row, 0 to 3, and of the other one, 4 to 7, that such lanes
  /// take.
  template <int apart>
  __device__ __forceinline__ std::uint32_t swap_bytes(std::uint32_t row, std::uint32_t lower,
                                                      std::uint32_t upper) const {
    const std::uint32_t taken = (lane & apart) != 0 ? upper : lower;
    return __byte_perm(row, __shfl_xor_sync(kAllLanes, row, apart), taken);
  }

  template <int apart>
  __device__ __forceinline__ std::uint32_t swap_blocks(std::uint32_t row,
                                                       std::uint32_t mask) const {
    const bool upper = (lane & apart) != 0;
    const std::uint32_t kept = upper ? ~mask : mask;
    const int turn = upper ? kLanes - apart : apart;
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, row, apart);
    return choose(kept, row, __funnelshift_l(other, other, turn));
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
