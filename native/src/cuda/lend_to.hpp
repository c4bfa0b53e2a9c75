#pragma once

#include <cstddef>
#include <memory>

#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope {

/// Lends a buffer for work of `device`. Pinning takes a GPU: this one, and not the first,
/// which may be another's. Throws `Error`.
inline std::shared_ptr<Buffer> lend_to(int device, BufferPool& pool, PlaceSpec place,
                                       std::size_t bytes) {
  const ScopedDevice scope(device);
  return pool.lend(place, bytes);
}

}  // namespace lanescope
