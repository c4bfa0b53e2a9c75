#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/device_blocks.hpp"
#include "compress/device_group.cuh"

namespace lanescope::compress {

/// The differences of a strip to its base, in order, for a warp that codes them as it reads values
/// and base, once: a tile of them at a time lies in shared memory, while what the next one is made
/// of is on its way to registers. Finds the shares of both checksums, and whether all differences
/// are one.
template <typename W, std::uint32_t kAtOnce>
class DifferencesIn {
 public:
  using Word = W;
  static constexpr std::uint32_t kTileBytes = kAtOnce * kLanes * 16;

  std::uint64_t sum = 0, base_sum = 0;  ///< This lane's.
  std::uint64_t pattern = 0;            ///< What all might be, repeated to 8 bytes.
  std::uint64_t other = 0;              ///< Not 0 where a difference is not that.

  /// Of a part of a block that begins there.
  __device__ __forceinline__ DifferencesIn(DeviceWarp warp, std::byte* tile,
                                           const std::byte* values, const std::byte* base,
                                           StripPart part, const Differing& differing)
      : warp_(warp),
        tile_(reinterpret_cast<uint4*>(tile)),
        values_(reinterpret_cast<const uint4*>(values + part.begin)),
        base_(reinterpret_cast<const uint4*>(base + part.begin)),
        bytes_(part.bytes),
        place_(part.begin / 8),
        differing_(differing) {
    look_ahead(0);
  }

  /// Where difference `first` lies, and those behind it in its tile; zeros behind the last.
  /// Rows are taken in order, all of them; one before may be gone then.
  __device__ __forceinline__ const Word* row(std::uint32_t first) {
    const std::uint32_t begin = first * static_cast<std::uint32_t>(sizeof(Word));
    if (begin % kTileBytes == 0) fill(begin);
    return reinterpret_cast<const Word*>(tile_) + first % (kTileBytes / sizeof(Word));
  }

  /// Takes all rows, for the checksums alone.
  __device__ __forceinline__ void take_all() {
#pragma unroll 1
    for (std::uint32_t begin = 0; begin < bytes_; begin += kTileBytes) fill_part(begin);
  }

 private:
  __device__ __forceinline__ void load(std::uint32_t k, std::uint32_t begin) {
    const std::uint32_t number = begin / 16 + k * kLanes + static_cast<std::uint32_t>(warp_.lane);
    ahead_[k] = load_once(values_ + number);
    base_ahead_[k] = load_once(base_ + number);
  }

  __device__ __forceinline__ void look_ahead(std::uint32_t begin) {
    if (begin + kTileBytes > bytes_) return;
#pragma unroll
    for (std::uint32_t k = 0; k < kAtOnce; ++k) load(k, begin);
  }

  __device__ __forceinline__ void fill(std::uint32_t begin) {
    __syncwarp();
    if (begin + kTileBytes <= bytes_)
      fill_whole(begin);
    else
      fill_part(begin);
    __syncwarp();
  }

  __device__ __forceinline__ void fill_whole(std::uint32_t begin) {
    const bool more = begin + 2 * kTileBytes <= bytes_;
#pragma unroll
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      const std::uint32_t i = k * kLanes + static_cast<std::uint32_t>(warp_.lane);
      const uint4 of = base_ahead_[k];
      const uint4 unit = take_unit(differing_, ahead_[k], of);
      if (more) load(k, begin + kTileBytes);
      tile_[i] = unit;
      const std::uint32_t place = place_ + begin / 8 + 2 * i;
      add_parts(sum, unit, place);
      add_parts(base_sum, of, place);
      other |= (low_word(unit) ^ pattern) | (high_word(unit) ^ pattern);
    }
  }

  /// The end of a strip.
  __device__ void fill_part(std::uint32_t begin) {
#pragma unroll 1
    for (std::uint32_t k = 0; k < kAtOnce; ++k) {
      const std::uint32_t i = k * kLanes + static_cast<std::uint32_t>(warp_.lane);
      const std::uint32_t at = begin + 16 * i;
      uint4 unit = unit_of(0, 0);
      if (at < bytes_) {
        const std::uint32_t there = bytes_ - at < 16 ? bytes_ - at : 16;
        const uint4 of = load_rest(reinterpret_cast<const std::byte*>(base_) + at, there);
        unit = take_unit(differing_,
                         load_rest(reinterpret_cast<const std::byte*>(values_) + at, there), of);
        add_parts(sum, unit, place_ + at / 8, there);
        add_parts(base_sum, of, place_ + at / 8, there);
        other |= (low_word(unit) ^ pattern) & low_bytes(there < 8 ? there : 8);
        if (there > 8) other |= (high_word(unit) ^ pattern) & low_bytes(there - 8);
      }
      tile_[i] = unit;
    }
  }

  DeviceWarp warp_;
  uint4* tile_;
  const uint4* values_;
  const uint4* base_;
  std::uint32_t bytes_, place_;
  Differing differing_;
  uint4 ahead_[kAtOnce], base_ahead_[kAtOnce];
};

}  // namespace lanescope::compress
