#include "host/block_walk.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kRowSeed = 0x524F57, kColumnSeed = 0x434F4C;
// So few have a table of their own, 32 KiB of it, and no rows.
constexpr std::size_t kMostInOneRow = 4096;

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  for (std::size_t i = count - 1; i > 0; --i)
    std::swap(numbers[i], numbers[pattern_word(seed, i) % (i + 1)]);
  return numbers;
}

std::size_t columns_for(std::size_t blocks) {
  if (blocks <= kMostInOneRow) return blocks;
  return static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(blocks))));
}

}  // namespace

RandomWalk::RandomWalk(std::size_t blocks, std::size_t step) : blocks_(blocks), step_(step) {
  const std::size_t columns = columns_for(blocks);
  auto tables = std::make_shared<Tables>();
  tables->columns = shuffled(columns, kColumnSeed);
  tables->rows = shuffled((blocks + columns - 1) / columns, kRowSeed);
  for (auto& row : tables->rows) row *= columns;
  tables_ = std::move(tables);
}

BlockWalk walk_over(BlockPattern pattern, std::size_t blocks, std::size_t step) {
  if (pattern == BlockPattern::random) return RandomWalk(blocks, step);
  const std::size_t walked = pattern == BlockPattern::repeated ? 1 : blocks;
  return SteppingWalk(walked, step, pattern == BlockPattern::descending);
}

}  // namespace lanescope
