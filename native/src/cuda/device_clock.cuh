#pragma once

#include <cstdint>

namespace lanescope {

/// The clock that all SMs of a GPU share.
inline __device__ std::uint64_t global_nanoseconds() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

}  // namespace lanescope
