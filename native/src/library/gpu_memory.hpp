#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>

namespace lanescope::compression {

/// Throws `Error` unless there are such GPUs.
void require_gpu(int gpu);

/// The GPU in whose memory an array lies; `what` names it for people: "the array". Throws `Error`.
int gpu_of(const void* at, const std::string& what);

/// Throws `Error` unless the memory is that GPU's, or none.
void require_on(int gpu, std::span<const std::byte> memory, const std::string& what);

}  // namespace lanescope::compression
