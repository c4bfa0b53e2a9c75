#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "lanescope/compress/host_codec.hpp"

namespace lanescope::compression {

/// Blocks by which a codec is chosen, eight spread over an array; all of a short one.
std::vector<std::byte> sample_on_host(std::span<const std::byte> array);

/// The same of an array in the current device's memory, behind what is on a stream.
std::vector<std::byte> sample_on_gpu(std::span<const std::byte> array, cudaStream_t stream);

/// The codec, and its dimensionality, that makes a sample smallest: what Python's `auto` takes.
compress::Choice smallest(compress::Dtype dtype, std::span<const std::byte> sample);

}  // namespace lanescope::compression
