#pragma once

#include <compare>
#include <cstdint>

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

/// A place: `index` is a NUMA node for host memory, a device otherwise. With an `address` it is
/// memory that is there, which may be another process': `index` is a device that can reach it.
struct PlaceSpec {
  Memory memory;
  int index;
  std::uintptr_t address = 0;
  auto operator<=>(const PlaceSpec&) const = default;
};

}  // namespace lanescope
