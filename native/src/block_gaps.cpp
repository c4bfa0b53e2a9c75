#include "block_gaps.hpp"

#include <algorithm>

namespace lanescope {

namespace {

/// Where the first blocks of a walk begin, ascending.
std::vector<std::size_t> touched(BlockWalk walk, std::uint64_t blocks) {
  std::vector<std::size_t> begins;
  begins.reserve(blocks);
  for (std::uint64_t i = 0; i < blocks; ++i) begins.push_back(next_offset(walk));
  std::ranges::sort(begins);
  return begins;
}

}  // namespace

std::vector<ByteRange> untouched_bytes(BlockPattern pattern, std::uint64_t repetitions,
                                       std::size_t block_bytes, std::size_t span_bytes) {
  std::vector<ByteRange> gaps;
  std::size_t end = 0;  // of what is touched or a gap so far
  auto touch = [&](std::size_t first, std::size_t last) {
    if (first > end) gaps.push_back({end, first});
    end = last;
  };
  const std::size_t blocks = span_bytes / block_bytes;
  const std::size_t lap = pattern == BlockPattern::repeated ? 1 : blocks;
  if (repetitions >= lap)
    touch(0, lap * block_bytes);
  else
    for (const std::size_t begin : touched(walk_over(pattern, blocks, block_bytes), repetitions))
      touch(begin, begin + block_bytes);
  touch(span_bytes, span_bytes);
  return gaps;
}

}  // namespace lanescope
