#pragma once

#include <cstddef>

namespace lanescope {

/// Where single loads of 8 bytes go, by their number.
///
/// Each goes `stride` bytes behind the one before it, lap after lap over the same memory, and
/// no two go to the same place. Every lap takes another line of each stride, and only when
/// all were taken another word of them: laps that stayed in one line would find it in a cache.
struct LoadPlaces {
  static constexpr std::size_t kWord = 8;
  static constexpr std::size_t kLine = 64;

  std::size_t count;    ///< Number of loads.
  std::size_t stride;   ///< Bytes; a multiple of 8.
  std::size_t per_lap;  ///< Loads of one lap.

  /// Offset of load number `i`, in bytes.
  std::size_t offset(std::size_t i) const noexcept {
    return i % per_lap * stride + lap_offset(i / per_lap);
  }
  /// Where a lap begins, in bytes.
  std::size_t lap_offset(std::size_t lap) const noexcept {
    const std::size_t lines = stride / kLine, words = kLine / kWord;
    if (lap >= lines * words) return lap * kWord;  // what is left behind the last whole line
    return lap % lines * kLine + lap / lines * kWord;
  }
  std::size_t laps() const noexcept { return (count + per_lap - 1) / per_lap; }
  /// Memory that the laps go over, in bytes.
  std::size_t span() const noexcept { return per_lap * stride; }
};

/// `count` places within `span` bytes. Throws `Error` when they do not fit.
LoadPlaces places_in(std::size_t span, std::size_t stride, std::size_t count);

/// As many places as one lap over `span` bytes has. Throws `Error`.
LoadPlaces one_lap(std::size_t span, std::size_t stride);

}  // namespace lanescope
