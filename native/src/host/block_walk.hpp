#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace lanescope {

/// How copies of blocks go through an array.
enum class BlockPattern {
  repeated,    ///< Always the first block.
  ascending,   ///< By address, and from the first again.
  descending,  ///< From the last, and from there again.
  random,      ///< Each block once in a fixed order without rule, and so again.
};

/// Goes through blocks by address, upwards or downwards.
class SteppingWalk {
 public:
  SteppingWalk(std::size_t blocks, std::size_t step, bool down)
      : first_(down ? (blocks - 1) * step : 0),
        last_(down ? 0 : (blocks - 1) * step),
        step_(down ? 0 - step : step),
        next_(first_) {}

  std::size_t next() {
    const std::size_t offset = next_;
    next_ = offset == last_ ? first_ : offset + step_;
    return offset;
  }

 private:
  std::size_t first_, last_, step_, next_;
};

/// Goes through blocks in random order.
///
/// A table of all blocks would be larger than the blocks where they are small, and reading it
/// would be timed. So blocks form a square, rows and columns are shuffled, and each pass takes
/// one block of each row, each from another column: two tables that stay in the first cache.
class RandomWalk {
 public:
  RandomWalk(std::size_t blocks, std::size_t step);

  std::size_t next() {
    for (;;) {
      const std::size_t block = tables_->rows[row_] + tables_->columns[column_];
      advance();
      if (block < blocks_) return block * step_;  // the last row may be a part of one
    }
  }

 private:
  struct Tables {
    std::vector<std::size_t> rows;  // first block of each
    std::vector<std::size_t> columns;
  };

  void advance() {
    if (++column_ == tables_->columns.size()) column_ = 0;
    if (++row_ < tables_->rows.size()) return;
    row_ = 0;
    if (++pass_ == tables_->columns.size()) pass_ = 0;
    column_ = pass_;
  }

  std::size_t blocks_, step_;
  std::shared_ptr<const Tables> tables_;
  std::size_t row_ = 0, column_ = 0, pass_ = 0;
};

/// Offsets of blocks, one after the other, without an end; cheap to copy.
using BlockWalk = std::variant<SteppingWalk, RandomWalk>;

/// The next offset of a walk, where finding out which kind it is may take its time.
inline std::size_t next_offset(BlockWalk& walk) {
  return std::visit([](auto& steps) { return steps.next(); }, walk);
}

/// A walk over `blocks` blocks (one or more), `step` bytes from each to the next in memory.
BlockWalk walk_over(BlockPattern pattern, std::size_t blocks, std::size_t step);

}  // namespace lanescope
