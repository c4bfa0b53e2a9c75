#pragma once

#include <cstddef>
#include <cstdint>

#include "load_places.hpp"

namespace lanescope {

/// Follows pointers from `place`, `loads` of them; each load needs the one before it. Returns
/// the address that the last one read.
std::uint64_t chase_loads(std::uint64_t place, std::size_t loads);

/// Loads all places behind `base` once, in the order of their numbers; none waits for another.
/// Returns the sum of what they read, which wraps around.
std::uint64_t gather_loads(const void* base, const LoadPlaces& places);

}  // namespace lanescope
