#pragma once

#include <compare>

namespace lanescope {

/// Kind of memory that bytes live in.
enum class Memory {
  pageable,
  pinned,
  write_combined,
  mapped,
  managed,
  huge,
  small_pages,
  device,
  pool,  ///< Of a device, from the driver's pool; there are no buffers of it.
};

/// A place: `index` is a NUMA node for host memory, a device otherwise.
struct PlaceSpec {
  Memory memory;
  int index;
  auto operator<=>(const PlaceSpec&) const = default;
};

}  // namespace lanescope
