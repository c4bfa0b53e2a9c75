#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "load_places.hpp"

namespace lanescope {

/// In which order a pointer chase visits the elements of its ring.
enum class ChaseOrder {
  sequential,  ///< By address, and from the last to the first again.
  random,      ///< One cycle through all elements in random order, always the same one.
};

/// A ring of pointers: one at each place.
struct RingSpec {
  LoadPlaces places;
  ChaseOrder order;
};

/// The places in the order in which they are visited, by their number.
/// Throws `Error` when the ring has fewer than two places or more than 2^32 - 1.
std::vector<std::uint32_t> ring_visits(const RingSpec& ring);

/// Writes the pointers of a ring to `image`, as they are to lie at address `base`: each
/// place holds the address of the one that is visited next.
void write_ring(void* image, std::uint64_t base, const LoadPlaces& places,
                const std::vector<std::uint32_t>& visits);

}  // namespace lanescope
