#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "compress/host_codec.hpp"

namespace lanescope::compression {

using CopyPart = std::function<void(std::byte* to, std::span<const std::byte> part)>;

/// Blocks by which a codec is chosen, eight spread over an array; all of a short one. `copy` brings
/// each to the host's memory.
std::vector<std::byte> sample_of(std::span<const std::byte> array, const CopyPart& copy);

/// The sample of an array in the host's memory.
std::vector<std::byte> sample_on_host(std::span<const std::byte> array);

/// The codec, and its dimensionality, that makes a sample smallest: what Python's `auto` takes.
compress::Choice smallest(compress::Dtype dtype, std::span<const std::byte> sample);

}  // namespace lanescope::compression
