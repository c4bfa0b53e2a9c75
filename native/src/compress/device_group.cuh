#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/blocks.hpp"
#include "compress/checksum.hpp"
#include "compress/device_blocks.hpp"
#include "compress/device_shape.hpp"
#include "compress/device_warp.cuh"

namespace lanescope::compress {

// Four warps work on a block of 64 KiB, each on its strip of 16 KiB. They are a group; an SM has
// several, which do not wait for each other: of one CTA, or each of its own.

/// What the warps of a group tell each other.
struct GroupShared {
  std::uint64_t sums[2][kStrips];  ///< Of checksums; by turns, so that one wait a block is enough.
  std::uint64_t base_sums[kStrips];  ///< Of an update's base.
  std::uint32_t used[kStrips];       ///< Bytes of coded strips.
  std::uint32_t begin[kStrips + 1];  ///< Of coded strips in the payload, and its end, in words.
  std::uint64_t place;               ///< Of the block's payload.
  std::uint64_t taken;               ///< Blocks taken so far, but for the first ones of groups.
  std::uint32_t note;                ///< See device_progress.cuh.
};

struct Group {
  int number;  ///< In the SM.
  int warp;    ///< In the group, and of the strip.
  DeviceWarp lanes;
  GroupShared* shared;

  __device__ static Group mine(GroupShared* all) {
    const int number = static_cast<int>(threadIdx.x) / kGroupThreads;
    return {number, static_cast<int>(threadIdx.x) / kLanes % static_cast<int>(kStrips),
            DeviceWarp::mine(), all + number};
  }
  /// Where a CTA is one group.
  __device__ static Group only(GroupShared* shared) {
    return {0, static_cast<int>(threadIdx.x) / kLanes, DeviceWarp::mine(), shared};
  }
  __device__ bool leads() const { return warp == 0 && lanes.lane == 0; }

#ifdef LANESCOPE_EMULATED
  void sync() const { emulated_barrier(number, false); }
  bool any(bool bit) const { return emulated_barrier(number, bit); }
#else
  /// Waits for the group, on a barrier of its own.
  __device__ __forceinline__ void sync() const {
    asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "n"(kGroupThreads) : "memory");
  }

  /// Waits for the group, and tells whether any thread's bit was set.
  __device__ __forceinline__ bool any(bool bit) const {
    int found;
    asm volatile(
        "{\n"
        "  .reg .pred p, q;\n"
        "  setp.ne.s32 p, %1, 0;\n"
        "  bar.red.or.pred q, %2, %3, p;\n"
        "  selp.s32 %0, 1, 0, q;\n"
        "}"
        : "=r"(found)
        : "r"(static_cast<int>(bit)), "r"(number + 1), "n"(kGroupThreads)
        : "memory");
    return found != 0;
  }
#endif
};

/// 16 bytes to shared memory, which are there after `wait_for_copies`.
__device__ __forceinline__ void copy_in(uint4* to, const uint4* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  *to = *from;
#endif
}

__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Has memory brought into the L2 cache from where it is aligned to 16 bytes, if the GPU can.
__device__ __forceinline__ void bring_near(const std::byte* from, std::uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (bytes >= 16)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
                 "r"(bytes / 16 * 16)
                 : "memory");
#endif
}

__device__ __forceinline__ std::uint64_t low_word(uint4 unit) {
  return static_cast<std::uint64_t>(unit.y) << 32 | unit.x;
}

__device__ __forceinline__ std::uint64_t high_word(uint4 unit) {
  return static_cast<std::uint64_t>(unit.w) << 32 | unit.z;
}

__device__ __forceinline__ uint4 unit_of(std::uint64_t low, std::uint64_t high) {
  return make_uint4(static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                    static_cast<unsigned>(high), static_cast<unsigned>(high >> 32));
}

/// The lowest `bytes` bytes of a word, 1 to 8.
__device__ __forceinline__ std::uint64_t low_bytes(std::uint32_t bytes) {
  return ~std::uint64_t{0} >> (64 - 8 * bytes);
}

/// Up to 8 bytes as a word, filled up with zeros.
__device__ inline std::uint64_t load_part(const std::byte* from, std::uint32_t bytes) {
  std::uint64_t word = 0;
#pragma unroll 1
  for (std::uint32_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(from[i]) << 8 * i;
  return word;
}

/// Up to 16 bytes, filled up with zeros.
__device__ inline uint4 load_rest(const std::byte* from, std::uint32_t bytes) {
  return unit_of(load_part(from, bytes < 8 ? bytes : 8),
                 bytes > 8 ? load_part(from + 8, bytes - 8) : 0);
}

/// Adds to the sum of a block's checksum what 16 bytes at `place`, in words, add; of the last ones
/// `bytes` are there.
__device__ __forceinline__ void add_parts(std::uint64_t& sum, uint4 unit, std::uint32_t place,
                                          std::uint32_t bytes = 16) {
  sum += checksum_part(low_word(unit), place);
  if (bytes > 8) sum += checksum_part(high_word(unit), place + 1);
}

/// The sum over all lanes, in each of them.
__device__ __forceinline__ std::uint64_t sum_of(std::uint64_t sum) {
#pragma unroll
  for (int apart = kLanes / 2; apart > 0; apart /= 2)
    sum += __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(sum), apart);
  return sum;
}

/// Calls `take(unit, number)` for each 16 bytes of memory, and `rest(unit, number, bytes)` in one
/// lane for those at the end that are fewer. Many loads are under way at once: each unit that is
/// taken makes room for another one.
template <typename Take, typename Rest>
__device__ __forceinline__ void for_units(DeviceWarp warp, const std::byte* in, std::uint32_t bytes,
                                          Take take, Rest rest) {
  constexpr std::uint32_t kAtOnce = 8, kRound = kAtOnce * kLanes;
  const auto* units = reinterpret_cast<const uint4*>(in);
  const std::uint32_t whole = bytes / 16;
  const std::uint32_t rounds_end = whole / kRound * kRound;
  if (rounds_end > 0) {
    uint4 held[kAtOnce];
#pragma unroll
    for (std::uint32_t k = 0; k < kAtOnce; ++k) held[k] = units[k * kLanes + warp.lane];
#pragma unroll 1
    for (std::uint32_t first = 0; first < rounds_end; first += kRound) {
      const std::uint32_t next = first + kRound;
#pragma unroll
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        take(held[k], first + k * kLanes + warp.lane);
        if (next < rounds_end) held[k] = units[next + k * kLanes + warp.lane];
      }
    }
  }
  for (std::uint32_t i = rounds_end + warp.lane; i < whole; i += kLanes) take(units[i], i);
  if (bytes % 16 != 0 && warp.lane == 0)
    rest(load_rest(in + 16 * whole, bytes % 16), whole, bytes % 16);
}

/// 16 bytes that nobody reads again: what else is in the caches stays there.
__device__ __forceinline__ uint4 load_once(const uint4* from) {
#ifdef LANESCOPE_EMULATED
  return *from;
#else
  return __ldcs(from);
#endif
}

/// The same for what is written.
__device__ __forceinline__ void store_once(uint4* to, uint4 unit) {
#ifdef LANESCOPE_EMULATED
  *to = unit;
#else
  __stcs(to, unit);
#endif
}

/// The same for two pieces of memory of one size: `take(unit, other, number)`, and `rest(unit,
/// other, number, bytes)`.
template <typename Take, typename Rest>
__device__ __forceinline__ void for_unit_pairs(DeviceWarp warp, const std::byte* one,
                                               const std::byte* other, std::uint32_t bytes,
                                               Take take, Rest rest) {
  constexpr std::uint32_t kAtOnce = 4, kRound = kAtOnce * kLanes;
  const auto* ones = reinterpret_cast<const uint4*>(one) + warp.lane;
  const auto* others = reinterpret_cast<const uint4*>(other) + warp.lane;
  const std::uint32_t whole = bytes / 16, rounds_end = whole / kRound * kRound;
  uint4 first[kAtOnce], second[kAtOnce];
  const auto load = [&](std::uint32_t k, std::uint32_t number) {
    first[k] = load_once(ones + number);
    second[k] = load_once(others + number);
  };
  if (rounds_end > 0) {
#pragma unroll
    for (std::uint32_t k = 0; k < kAtOnce; ++k) load(k, k * kLanes);
  }
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < rounds_end; begin += kRound) {
    const std::uint32_t next = begin + kRound;
#pragma unroll
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      take(first[k], second[k], begin + k * kLanes + warp.lane);
      if (next < rounds_end) load(k, next + k * kLanes);
    }
  }
#pragma unroll 1
  for (std::uint32_t i = rounds_end; i + warp.lane < whole; i += kLanes)
    take(ones[i], others[i], i + warp.lane);
  if (bytes % 16 != 0 && warp.lane == 0)
    rest(load_rest(one + 16 * whole, bytes % 16), load_rest(other + 16 * whole, bytes % 16), whole,
         bytes % 16);
}

/// Differences of 16 bytes of values to a base, and values again.
__device__ __forceinline__ uint4 take_unit(const Differing& differing, uint4 values, uint4 base) {
  return unit_of(differing.take(low_word(values), low_word(base)),
                 differing.take(high_word(values), high_word(base)));
}
__device__ __forceinline__ uint4 put_unit(const Differing& differing, uint4 differences,
                                          uint4 base) {
  return unit_of(differing.put(low_word(differences), low_word(base)),
                 differing.put(high_word(differences), high_word(base)));
}

/// A block's part that is a warp's.
struct StripPart {
  std::uint32_t begin;  ///< In the block.
  std::uint32_t bytes;  ///< 0 where the block is shorter.

  __device__ static StripPart of(int warp, std::uint32_t block_bytes) {
    const auto begin = static_cast<std::uint32_t>(warp * kStripBytes);
    if (begin >= block_bytes) return {begin, 0};
    const std::uint32_t left = block_bytes - begin;
    return {begin, left < kStripBytes ? left : static_cast<std::uint32_t>(kStripBytes)};
  }
};

/// A value, repeated to 8 bytes.
__device__ inline std::uint64_t repeat(std::uint64_t value, std::uint32_t value_bytes) {
  value &= low_bytes(value_bytes);
  if (value_bytes == 1) value *= 0x0101010101010101U;
  if (value_bytes == 2) value *= 0x0001000100010001U;
  if (value_bytes == 4) value *= 0x0000000100000001U;
  return value;
}

}  // namespace lanescope::compress
