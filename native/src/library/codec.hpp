#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "library/choosing.hpp"
#include "library/seam.hpp"

namespace lanescope::compression {

// What streams in the host's memory and in a GPU's have in common.

/// Throws `Error` where no array of so many bytes is of the shape that the options have.
std::vector<std::uint64_t> shape_of(std::size_t bytes, const Options& options);

/// The codec of the options, or else the one that makes what `sample` returns smallest.
template <typename Sample>
core::Choice choice_of(const Options& options, Sample sample) {
  if (options.codec) return {*options.codec, options.dtype, options.dimensionality};
  return smallest(options.dtype, sample());
}

/// What a stream says of itself, for users.
StreamInfo info_of(const core::Layout& layout);

}  // namespace lanescope::compression
