#include "watch/elimination.hpp"

#include <algorithm>
#include <utility>

namespace lanescope::watch {

namespace {

using modular::kMostProducts;
using modular::kPrime;
using modular::Number;
using modular::reduced;
using modular::Wide;

/// Sum of products, of which no intermediate one is reduced without need.
Number product(std::span<const Number> a, const Number* b) noexcept {
  Number sum = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += kMostProducts) {
    Wide part = sum;
    const std::size_t end = std::min(begin + kMostProducts, a.size());
    for (std::size_t i = begin; i < end; ++i) part += Wide{a[i]} * b[i];
    sum = reduced(part);
  }
  return sum;
}

}  // namespace

Elimination::Found Elimination::insert(std::span<const std::uint64_t> differing,
                                       const Values& values) {
  sums_.resize(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i)
    sums_[i] = differing[columns_[i] / 64] >> (columns_[i] % 64) & 1;
  std::copy(values.begin(), values.end(), value_sums_.begin());
  reduce();
  const auto own = sums_.begin() + static_cast<std::ptrdiff_t>(rows_.size());
  const auto pivot = std::find_if(own, sums_.end(), [](Wide n) { return n != 0; });
  if (pivot == sums_.end()) {
    const bool same =
        std::all_of(value_sums_.begin(), value_sums_.end(), [](Wide n) { return n == 0; });
    return same ? Found::known : Found::contradiction;
  }
  move_column(static_cast<std::size_t>(pivot - sums_.begin()));
  const std::size_t at = rows_.size();
  const Number factor = modular::inverse(static_cast<Number>(sums_[at]));
  Row& row = rows_.emplace_back();
  for (std::size_t i = at + 1; i < sums_.size(); ++i)
    row.after.push_back(modular::times(static_cast<Number>(sums_[i]), factor));
  for (std::size_t i = 0; i < kMostValues; ++i)
    row.values[i] = modular::times(static_cast<Number>(value_sums_[i]), factor);
  return Found::fresh;
}

/// Takes rows from the sums, one after the other, so that zeros are in the columns of all pivots.
void Elimination::reduce() {
  const auto shorten = [this](std::size_t begin) {
    for (std::size_t i = begin; i < sums_.size(); ++i) sums_[i] = reduced(sums_[i]);
    for (Wide& sum : value_sums_) sum = reduced(sum);
  };
  std::size_t taken = 0;
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    const Number own = reduced(sums_[at]);
    if (own == 0) continue;
    const Row& row = rows_[at];
    const Number factor = kPrime - own;
    Wide* sums = sums_.data() + at + 1;
    for (std::size_t i = 0; i < row.after.size(); ++i) sums[i] += Wide{factor} * row.after[i];
    for (std::size_t i = 0; i < kMostValues; ++i) value_sums_[i] += Wide{factor} * row.values[i];
    work_ += row.after.size();
    if (++taken % kMostProducts == 0) shorten(at + 1);
  }
  shorten(rows_.size());
}

/// Puts a column behind those of the pivots.
void Elimination::move_column(std::size_t from) {
  const std::size_t to = rows_.size();
  if (from == to) return;
  std::swap(columns_[from], columns_[to]);
  std::swap(sums_[from], sums_[to]);
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    std::vector<Number>& after = rows_[at].after;
    const std::size_t a = from - at - 1, b = to - at - 1;
    if (after.size() <= b) continue;  // zeros both
    if (after.size() <= a) {
      if (after[b] == 0) continue;
      after.resize(a + 1);
    }
    std::swap(after[a], after[b]);
  }
}

Elimination::Solution Elimination::solve(std::size_t bits,
                                         const std::function<std::uint64_t()>& random) {
  const std::size_t all = columns_.size(), pivots = rows_.size();
  const bool checks = pivots < all;
  std::vector<Number> check(all);
  std::array<std::vector<Number>, kMostValues> values;
  values.fill(std::vector<Number>(all));
  for (std::size_t i = pivots; i < all; ++i) check[i] = random() % kPrime;
  for (std::size_t at = pivots; at-- > 0;) {
    const Row& row = rows_[at];
    if (checks) check[at] = modular::minus(0, product(row.after, &check[at] + 1));
    // What is no pivot counts nothing.
    const auto others = std::span(row.after).first(std::min(row.after.size(), pivots - at - 1));
    for (std::size_t i = 0; i < kMostValues; ++i)
      values[i][at] = modular::minus(row.values[i], product(others, &values[i][at] + 1));
    work_ += row.after.size() + kMostValues * others.size();
  }
  Solution solution;
  const auto by_bits = [&](const std::vector<Number>& numbers) {
    std::vector<Number> found(bits);
    for (std::size_t i = 0; i < all; ++i) found[columns_[i]] = numbers[i];
    return found;
  };
  for (std::size_t i = 0; i < kMostValues; ++i) solution.values[i] = by_bits(values[i]);
  if (checks) solution.check = by_bits(check);
  return solution;
}

}  // namespace lanescope::watch
