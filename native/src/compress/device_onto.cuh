#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/device_blocks.hpp"
#include "compress/device_group.cuh"

namespace lanescope::compress {

/// Of an update, what a warp makes of the differences of its strip: values, which it keeps until
/// the block is known to be good, and the share of the base's sum.
struct OntoBase {
  const uint4* base;  ///< Of the strip, as the next two.
  uint4* values;
  std::uint32_t place;  ///< In the block, in words of 8 bytes.
  Differing differing;
  std::uint64_t sum = 0;
  bool as_it_was = false;  ///< Nothing was kept, as all values are those of the base.

  __device__ __forceinline__ uint4 base_of(std::uint32_t number) const {
    return load_once(base + number);
  }

  __device__ __forceinline__ void put(uint4 differences, uint4 of, std::uint32_t number) {
    add_parts(sum, of, place + 2 * number);
    values[number] = put_unit(differing, differences, of);
  }

  /// Fewer than 16 bytes, filled up with zeros; the base has no more, either.
  __device__ void put_rest(uint4 differences, std::uint32_t number, std::uint32_t bytes) {
    const uint4 of = load_rest(reinterpret_cast<const std::byte*>(base + number), bytes);
    add_parts(sum, of, place + 2 * number, bytes);
    values[number] = put_unit(differing, differences, of);
  }

  /// Puts the base itself, of so many bytes; does not even keep it where the values go to the base.
  __device__ void put_nothing(DeviceWarp warp, std::uint32_t bytes, bool in_place) {
    as_it_was = in_place;
    const auto keep = [&](uint4 of, std::uint32_t number, std::uint32_t there = 16) {
      add_parts(sum, of, place + 2 * number, there);
      if (!as_it_was) values[number] = of;
    };
    for_units(warp, reinterpret_cast<const std::byte*>(base), bytes, keep, keep);
  }

  /// Stores the values that were kept.
  __device__ void store(DeviceWarp warp, std::byte* out, std::uint32_t bytes) const {
    if (as_it_was) return;
    auto* units = reinterpret_cast<uint4*>(out);
    const auto* kept = reinterpret_cast<const std::byte*>(values);
    for_units(
        warp, kept, bytes,
        [&](uint4 unit, std::uint32_t number) { store_once(units + number, unit); },
        [&](uint4, std::uint32_t number, std::uint32_t) {
          for (std::uint32_t i = 16 * number; i < bytes; ++i) out[i] = kept[i];
        });
    __syncwarp();  // before others take the place of what was kept
  }
};

}  // namespace lanescope::compress
