#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanescope {

/// In which order a pointer chase visits the elements of its ring.
enum class ChaseOrder {
  sequential,  ///< By address, and from the last to the first again.
  random,      ///< One cycle through all elements in random order, always the same one.
};

/// A ring of pointers: one at the start of every `stride` bytes.
struct RingSpec {
  std::size_t bytes;   ///< Of the whole ring; what is left over after whole strides is not used.
  std::size_t stride;  ///< A multiple of 8.
  ChaseOrder order;
};

/// The elements in the order in which they are visited, by their number in memory.
/// Throws `Error` when the ring has fewer than two elements or more than 2^32.
std::vector<std::uint32_t> ring_visits(const RingSpec& ring);

/// Writes the pointers of a ring to `image`, as they are to lie at address `base`: each
/// element holds the address of the one that is visited next.
void write_ring(void* image, std::uint64_t base, std::size_t stride,
                const std::vector<std::uint32_t>& visits);

}  // namespace lanescope
