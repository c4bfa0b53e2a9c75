#include "chase_ring.hpp"

#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kShuffleSeed = 0xC4A5E;

}  // namespace

std::vector<std::uint32_t> ring_visits(const RingSpec& ring) {
  const std::size_t elements = ring.places.count;
  if (elements < 2 || elements > std::numeric_limits<std::uint32_t>::max())
    throw Error("ring_visits", 0, "bad ring", "a ring needs 2 to 2^32 - 1 elements");
  std::vector<std::uint32_t> visits(elements);
  std::iota(visits.begin(), visits.end(), 0u);
  // The order of visits is shuffled, not the pointers: whatever the order, following it
  // and going back to its start is one cycle through all elements.
  if (ring.order == ChaseOrder::random)
    for (std::size_t i = elements - 1; i > 0; --i)
      std::swap(visits[i], visits[pattern_word(kShuffleSeed, i) % (i + 1)]);
  return visits;
}

void write_ring(void* image, std::uint64_t base, const LoadPlaces& places,
                const std::vector<std::uint32_t>& visits) {
  auto* bytes = static_cast<std::byte*>(image);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const std::uint32_t after = visits[i + 1 < visits.size() ? i + 1 : 0];
    const std::uint64_t next = base + places.offset(after);
    std::memcpy(bytes + places.offset(visits[i]), &next, sizeof next);
  }
}

}  // namespace lanescope
