#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lanescope::compression {

/// Throws `Error` unless there are such GPUs.
void require_gpu(int gpu);

/// The GPU in whose memory an array lies; `what` names it for people: "the array". Throws `Error`.
int gpu_of(const void* at, const std::string& what);

/// Throws `Error` unless the memory is that GPU's, or none.
void require_on(int gpu, std::span<const std::byte> memory, const std::string& what);

/// The sample of an array in the current device's memory, behind what is on a stream.
std::vector<std::byte> sample_on_gpu(std::span<const std::byte> array, cudaStream_t stream);

}  // namespace lanescope::compression
