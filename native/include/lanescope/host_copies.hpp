#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "compression.hpp"  // installed beside this one

/// Copies between a GPU's memory and memory of the host that is not pinned, by several threads and
/// a ring of pinned memory where that is faster than the driver (docs/boost.md). Other memory of
/// the host is copied by the driver. Link with `lanescope::compression`.
///
/// Both may be used by several threads, and throw `lanescope::compression::Error`: `bad_input`, or
/// `cuda` with what the driver returned. The current context of the thread stays as it is.
namespace lanescope {

/// Copies `from`, in the host's memory, to `to`, of as many bytes in the memory of `gpu`. Comes
/// behind what `on` was given before; what it is given later comes behind the copy. Returns when
/// `from` may be changed.
/// @param on a stream of `gpu`, which is not captured into a graph; null: the default stream.
/// @param gpu counted as CUDA does. CUDA's runtime has been used for it before.
LANESCOPE_API void copy_to_gpu(std::span<const std::byte> from, std::span<std::byte> to,
                               cudaStream_t on, int gpu);

/// Copies `from`, in the memory of `gpu`, to `to`, of as many bytes in the host's memory, behind
/// what `on` was given. Returns when they are there.
LANESCOPE_API void copy_to_host(std::span<const std::byte> from, std::span<std::byte> to,
                                cudaStream_t on, int gpu);

}  // namespace lanescope
