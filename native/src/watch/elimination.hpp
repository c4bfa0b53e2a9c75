#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "watch/modular.hpp"

namespace lanescope::watch {

/// Gaussian elimination of samples: which of them are sums of others, and what their bits count.
///
/// A row is a sample's bits that differ from the first sample's, and the differences of its
/// values. Rows are made triangular only, which is half of the work or less: the columns of their
/// pivots come first, in the order of the rows, and a row has zeros before its pivot.
class Elimination {
 public:
  static constexpr std::size_t kMostValues = 4;
  using Values = std::array<modular::Number, kMostValues>;

  /// What became of a sample.
  enum class Found {
    fresh,          ///< It is no sum of rows: it has become one.
    known,          ///< It is a sum of rows, with the sum of their values.
    contradiction,  ///< It is a sum of rows, and has other values.
  };

  /// By bits, numbers: what each adds to the values, and to a check sum.
  struct Solution {
    std::array<std::vector<modular::Number>, kMostValues> values;
    /// Empty where any sample is a sum of rows. Else its sum is 0 for sums of rows, and for
    /// others but with a chance of 2^-61.
    std::vector<modular::Number> check;
  };

  /// A bit that has differed for the first time.
  void add_column(std::size_t bit) { columns_.push_back(bit); }

  /// Takes a sample: words of bits that differ, all of which have columns.
  Found insert(std::span<const std::uint64_t> differing, const Values& values);

  /// For so many bits; `random` draws numbers.
  Solution solve(std::size_t bits, const std::function<std::uint64_t()>& random);

  std::size_t rows() const noexcept { return rows_.size(); }
  std::size_t columns() const noexcept { return columns_.size(); }

  /// How many numbers have been multiplied so far.
  std::uint64_t work() const noexcept { return work_; }

 private:
  struct Row {
    std::vector<modular::Number> after;  // columns behind its pivot, which is 1; then zeros
    Values values;
  };

  void reduce();
  void move_column(std::size_t from);

  std::vector<std::size_t> columns_;  // bits; first those of the rows' pivots
  std::vector<Row> rows_;
  std::vector<modular::Wide> sums_;  // of the sample that is taken
  std::array<modular::Wide, kMostValues> value_sums_{};
  std::uint64_t work_ = 0;
};

}  // namespace lanescope::watch
