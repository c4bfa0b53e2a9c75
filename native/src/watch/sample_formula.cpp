#include "watch/sample_formula.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lanescope::watch {

namespace {

using Number = std::uint64_t;
using Wide = unsigned __int128;

constexpr Number kPrime = (Number{1} << 61) - 1;
constexpr double kLargest = 9007199254740992.0;  // 2^53: whole numbers in a double up to here
constexpr std::uint32_t kProofs = 200, kProofsOfNew = 16;
constexpr std::uint64_t kCheckedEach = 128;

constexpr Number reduced(Wide number) noexcept {
  number = (number & kPrime) + (number >> 61);
  const auto once = static_cast<Number>(number & kPrime) + static_cast<Number>(number >> 61);
  return once >= kPrime ? once - kPrime : once;
}

constexpr Number times(Number a, Number b) noexcept {
  return reduced(Wide{a} * b);
}

constexpr Number minus(Number a, Number b) noexcept {
  return a >= b ? a - b : a + kPrime - b;
}

/// Fermat: a^(p - 2).
constexpr Number inverse(Number number) noexcept {
  Number result = 1;
  for (Number power = kPrime - 2; power > 0; power >>= 1, number = times(number, number))
    if ((power & 1) != 0) result = times(result, number);
  return result;
}

Number of_value(double value) noexcept {
  const auto whole = static_cast<Number>(std::fabs(value));
  return value >= 0 ? whole : minus(0, whole);
}

double to_value(Number number) noexcept {
  return number <= kPrime / 2 ? static_cast<double>(number) : -static_cast<double>(kPrime - number);
}

int bit_of(const std::vector<std::uint64_t>& words, std::size_t bit) noexcept {
  return static_cast<int>(words[bit / 64] >> (bit % 64) & 1);
}

bool is_whole(double value) noexcept {
  return std::fabs(value) < kLargest && std::floor(value) == value;
}

}  // namespace

SampleFormula::SampleFormula(std::size_t bytes, std::size_t values)
    : size_(bytes),
      count_(values),
      usable_(bytes > 0 && bytes <= kMostBytes && values > 0 && values <= kMostValues) {
  if (!usable_) return;
  const std::size_t words = (bytes + 7) / 8;
  first_.assign(words, 0);
  sample_.assign(words, 0);
  constant_.assign(words, ~std::uint64_t{0});
}

void SampleFormula::forget() {
  std::fill(constant_.begin(), constant_.end(), ~std::uint64_t{0});
  rows_.clear();
  columns_.clear();
  check_sum_.clear();
  for (Tables& tables : sums_) tables.clear();
  has_first_ = false;
  proofs_ = proofs_of_zero_ = 0;
}

const double* SampleFormula::find(const std::uint8_t* sample) {
  if (!usable_) return nullptr;
  std::memcpy(sample_.data(), sample, size_);
  was_known_ = has_first_ && is_known();
  if (!was_known_) return nullptr;
  const bool is_zero = calculate();
  return is_proved(is_zero) && random() % kCheckedEach != 0 ? values_.data() : nullptr;
}

bool SampleFormula::is_known() const noexcept {
  for (std::size_t i = 0; i < constant_.size(); ++i)
    if (((sample_[i] ^ first_[i]) & constant_[i]) != 0) return false;
  return sum(check_sum_) == 0;
}

Number SampleFormula::sum(const Tables& tables) const noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(sample_.data());
  Wide found = 0;  // of at most 4096 numbers of 61 bits
  for (const Table& table : tables) found += table.adds[bytes[table.byte]];
  return reduced(found);
}

bool SampleFormula::calculate() noexcept {
  bool is_zero = true;
  for (std::size_t i = 0; i < count_; ++i) {
    values_[i] = to_value(reduced(Wide{first_values_[i]} + sum(sums_[i])));
    is_zero = is_zero && values_[i] == 0;
  }
  return is_zero;
}

bool SampleFormula::is_proved(bool is_zero) noexcept {
  return (is_zero ? proofs_of_zero_ + proofs_ : proofs_) >= kProofs;
}

void SampleFormula::learn(std::span<const double> values) {
  if (!usable_) return;
  if (!std::all_of(values.begin(), values.end(), is_whole)) {
    usable_ = false;  // no sum of counters
  } else if (!has_first_) {
    begin(values);
  } else if (was_known_) {
    confirm(values);
  } else {
    enter(values);
  }
}

void SampleFormula::begin(std::span<const double> values) {
  first_ = sample_;
  std::transform(values.begin(), values.end(), first_values_.begin(), of_value);
  has_first_ = true;
}

void SampleFormula::confirm(std::span<const double> values) {
  const bool is_zero = std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
  if (std::equal(values.begin(), values.end(), values_.begin())) {
    std::uint32_t& proofs = is_zero ? proofs_of_zero_ : proofs_;
    proofs += proofs < kProofs;
    return;
  }
  // Before it was of use it is no sum, which nobody has relied on.
  if (is_proved(std::all_of(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count_),
                            [](double v) { return v == 0; })))
    ++contradictions_;
  usable_ = false;
}

void SampleFormula::enter(std::span<const double> values) {
  add_columns();
  Row row{.pivot = 0, .columns = {}, .values = {}};
  for (const std::size_t bit : columns_)
    row.columns.push_back(of_value(bit_of(sample_, bit) - bit_of(first_, bit)));
  for (std::size_t i = 0; i < count_; ++i)
    row.values[i] = minus(of_value(values[i]), first_values_[i]);
  insert(std::move(row));
  prepare();
  for (std::uint32_t* proofs : {&proofs_, &proofs_of_zero_})
    *proofs = std::min(*proofs, kProofs - kProofsOfNew);
}

void SampleFormula::add_columns() {
  for (std::size_t bit = 0; bit < 8 * size_; ++bit) {
    const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
    if ((constant_[bit / 64] & mask) == 0 || bit_of(sample_, bit) == bit_of(first_, bit)) continue;
    constant_[bit / 64] &= ~mask;
    columns_.push_back(bit);
  }
  for (Row& row : rows_) row.columns.resize(columns_.size());
}

void SampleFormula::insert(Row row) {
  const auto take = [this](Row& from, const Row& other) {
    const Number factor = from.columns[other.pivot];
    if (factor == 0) return;
    for (std::size_t i = 0; i < from.columns.size(); ++i)
      if (const Number number = other.columns[i]; number != 0)
        from.columns[i] = minus(from.columns[i], times(factor, number));
    for (std::size_t i = 0; i < count_; ++i)
      from.values[i] = minus(from.values[i], times(factor, other.values[i]));
  };
  for (const Row& other : rows_) take(row, other);
  const auto pivot =
      std::find_if(row.columns.begin(), row.columns.end(), [](Number n) { return n != 0; });
  if (pivot == row.columns.end()) return;  // the check sum has missed a known one
  row.pivot = static_cast<std::size_t>(pivot - row.columns.begin());
  const Number factor = inverse(*pivot);
  for (Number& number : row.columns) number = times(number, factor);
  for (Number& number : row.values) number = times(number, factor);
  for (Row& other : rows_) take(other, row);
  rows_.push_back(std::move(row));
}

/// Make `find` quick. A sum of rows has any differences in their pivots, and those of the other
/// bits follow from them: by random factors that is one equation, the check sum.
void SampleFormula::prepare() {
  std::vector<Number> check(columns_.size());
  for (Number& number : check) number = random() % kPrime;
  for (const Row& row : rows_) check[row.pivot] = 0;
  for (const Row& row : rows_) {
    Wide sum = 0;  // in the pivots of others it has zeros
    for (std::size_t i = 0; i < check.size(); ++i)
      if (i != row.pivot) sum += times(check[i], row.columns[i]);
    check[row.pivot] = minus(0, reduced(sum));
  }
  check_sum_ = tables_of(check);
  for (std::size_t value = 0; value < count_; ++value) {
    std::vector<Number> numbers(columns_.size());
    for (const Row& row : rows_) numbers[row.pivot] = row.values[value];
    sums_[value] = tables_of(numbers);
  }
}

/// @return what each bit that differs from the first sample's adds, by bytes.
SampleFormula::Tables SampleFormula::tables_of(const std::vector<Number>& columns) const {
  std::vector<Number> numbers(64 * first_.size());
  for (std::size_t i = 0; i < columns.size(); ++i) numbers[columns_[i]] = columns[i];
  Tables tables;
  for (std::size_t begin = 0; begin < numbers.size(); begin += 8) {
    const auto* own = &numbers[begin];
    if (std::all_of(own, own + 8, [](Number n) { return n == 0; })) continue;
    Table& table = tables.emplace_back(Table{begin / 8, {}});
    for (std::size_t byte = 0; byte < table.adds.size(); ++byte) {
      Wide sum = 0;
      for (std::size_t i = 0; i < 8; ++i)
        sum += times(own[i], of_value(static_cast<int>(byte >> i & 1) - bit_of(first_, begin + i)));
      table.adds[byte] = reduced(sum);
    }
  }
  return tables;
}

/// Xorshift: nothing that samples could be in step with.
std::uint64_t SampleFormula::random() noexcept {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

}  // namespace lanescope::watch
