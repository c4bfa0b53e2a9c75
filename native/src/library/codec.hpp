#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/choosing.hpp"
#include "library/seam.hpp"

namespace lanescope::compression {

// What streams in the host's memory and in a GPU's have in common.

/// Throws `Error` where no array of so many bytes is of the shape that the options have.
std::vector<std::uint64_t> shape_of(std::size_t bytes, const Options& options);

/// As `core::choice_of`, for options, or `core::smallest_update`; `sample` returns that of an
/// array.
template <typename Sample>
core::Choice choice_of(const Options& options, std::span<const std::byte> array, Sample sample) {
  if (!options.base)
    return core::choice_of(options.codec, options.dtype, options.dimensionality,
                           [&] { return sample(array); });
  core::require_base_of(array.size(), options.base);
  return core::smallest_update(options.codec, options.dtype, options.dimensionality, sample(array),
                               sample(*options.base));
}

/// What a stream says of itself, for users.
StreamInfo info_of(const core::Layout& layout);

}  // namespace lanescope::compression
