#pragma once

#include <cstddef>

namespace lanescope {

/// Where single loads of 8 bytes go, by their number.
///
/// Each goes `stride` bytes behind the one before it, lap after lap over the same memory;
/// every lap begins 8 bytes behind the lap before it, so that no two go to the same place.
struct LoadPlaces {
  static constexpr std::size_t kWord = 8;

  std::size_t count;    ///< Number of loads.
  std::size_t stride;   ///< Bytes; a multiple of 8.
  std::size_t per_lap;  ///< Loads of one lap.

  /// Offset of load number `i`, in bytes.
  std::size_t offset(std::size_t i) const noexcept {
    return i % per_lap * stride + i / per_lap * kWord;
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
