#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/block_walk.hpp"

namespace lanescope {

/// Bytes from `begin` up to, and without, `end`.
struct ByteRange {
  std::size_t begin, end;
};

/// What the first `repetitions` of a walk have not touched of `span_bytes` bytes, in ascending
/// order; blocks have `block_bytes` bytes.
std::vector<ByteRange> untouched_bytes(BlockPattern pattern, std::uint64_t repetitions,
                                       std::size_t block_bytes, std::size_t span_bytes);

}  // namespace lanescope
