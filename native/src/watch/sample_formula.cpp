#include "watch/sample_formula.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lanescope::watch {

namespace {

using modular::kPrime;
using modular::Number;

constexpr double kLargest = 9007199254740992.0;  // 2^53: whole numbers in a double up to here
constexpr std::uint32_t kProofs = 200, kProofsOfNew = 16;
constexpr std::uint64_t kCheckedEach = 128;
// What is lost on the way to CUPTI is no number; so many are no accident.
constexpr std::uint32_t kMostFractions = 100;
// So often it begins with another sample.
constexpr std::uint64_t kMostBeginnings = 8;
// It is solved again after so many known samples went to CUPTI in vain, or when it has grown by
// a part. To solve takes as long as some samples take to be learned.
constexpr std::size_t kMostSpare = 4, kGrownPart = 16;

Number of_value(double value) noexcept {
  const auto whole = static_cast<Number>(std::fabs(value));
  return value >= 0 ? whole : modular::minus(0, whole);
}

double to_value(Number number) noexcept {
  return number <= kPrime / 2 ? static_cast<double>(number) : -static_cast<double>(kPrime - number);
}

bool is_whole(double value) noexcept {
  return std::fabs(value) < kLargest && std::floor(value) == value;
}

bool is_zero(double value) noexcept {
  return value == 0;
}

}  // namespace

SampleFormula::SampleFormula(std::size_t bytes, std::size_t values) : size_(bytes), count_(values) {
  if (bytes == 0 || values == 0 || values > kMostValues) {
    unusable_ = Unusable::size_unknown;
  } else if (bytes > kMostBytes) {
    unusable_ = Unusable::too_large;
  } else {
    const std::size_t words = (bytes + 7) / 8 + 1;  // one more, so that 8 bytes begin anywhere
    first_.assign(words, 0);
    sample_.assign(words, 0);
    varied_.assign(words, 0);
    constant_.assign(words, ~std::uint64_t{0});
  }
}

void SampleFormula::doubt() noexcept {
  doubted_ = has_first_;
  used_ = used_for_idle_ = false;
  proofs_ = proofs_of_zero_ = 0;
}

void SampleFormula::forget() {
  work_ += elimination_.work();
  elimination_ = Elimination();
  std::fill(varied_.begin(), varied_.end(), 0);
  std::fill(constant_.begin(), constant_.end(), ~std::uint64_t{0});
  check_sum_ = BitSum();
  sums_.fill(BitSum());
  has_first_ = doubted_ = used_ = used_for_idle_ = false;
  fresh_ = spare_ = 0;
  proofs_ = proofs_of_zero_ = 0;
  ++begun_anew_;
}

const double* SampleFormula::find(const std::uint8_t* sample) {
  if (unusable_ != Unusable::no) return nullptr;
  std::memcpy(sample_.data(), sample, size_);
  was_known_ = has_first_ && is_known();
  if (!was_known_) return nullptr;
  const bool zero = calculate();
  return is_proved(zero) && random() % kCheckedEach != 0 ? values_.data() : nullptr;
}

bool SampleFormula::is_known() const noexcept {
  for (std::size_t i = 0; i < constant_.size(); ++i)
    if (((sample_[i] ^ first_[i]) & constant_[i]) != 0) return false;
  return check_sum_(bytes(sample_)) == 0;
}

bool SampleFormula::calculate() noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    values_[i] = to_value(modular::plus(first_values_[i], sums_[i](bytes(sample_))));
  return std::all_of(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count_),
                     is_zero);
}

bool SampleFormula::is_proved(bool zero) const noexcept {
  return (zero ? proofs_of_zero_ + proofs_ : proofs_) >= kProofs;
}

SampleFormula::Learned SampleFormula::learn(std::span<const double> values) {
  if (unusable_ != Unusable::no) return Learned::nothing;
  const bool was_check =
      was_known_ && is_proved(std::all_of(values.begin(), values.end(), is_zero));
  if (!std::all_of(values.begin(), values.end(), is_whole)) {
    if (++fractions_ >= kMostFractions) unusable_ = Unusable::fractions;  // no sum of counters
    return Learned::nothing;
  }
  if (!has_first_) {
    begin(values);
  } else if (was_known_) {
    confirm(values);
  } else {
    enter(values);
  }
  return was_check || unusable_ != Unusable::no ? Learned::nothing : Learned::progress;
}

void SampleFormula::begin(std::span<const double> values) {
  first_ = sample_;
  std::transform(values.begin(), values.end(), first_values_.begin(), of_value);
  has_first_ = true;
}

void SampleFormula::confirm(std::span<const double> values) {
  if (std::equal(values.begin(), values.end(), values_.begin())) {
    prove(std::all_of(values.begin(), values.end(), is_zero));
  } else {
    contradict(std::all_of(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count_),
                           is_zero));
  }
}

void SampleFormula::prove(bool zero) noexcept {
  std::uint32_t& proofs = zero ? proofs_of_zero_ : proofs_;
  proofs += proofs < kProofs;
  if (proofs_ >= kProofs) doubted_ = false;
  used_ = used_ || is_proved(false);
  used_for_idle_ = used_for_idle_ || is_proved(true);
}

void SampleFormula::contradict(bool zero) {
  // Before it was of use it is no sum, which nobody has relied on.
  const bool used = is_proved(zero);
  // A single odd sample, which may be the first one, is no reason to give it up.
  if (!used && (doubted_ || begun_anew_ < kMostBeginnings)) return forget();
  contradictions_ += used;
  unusable_ = used ? Unusable::contradicted : Unusable::no_sum;
}

void SampleFormula::enter(std::span<const double> values) {
  add_columns();
  if (elimination_.columns() > kMostColumns) {
    unusable_ = Unusable::columns;
    return;
  }
  std::vector<std::uint64_t> differing(sample_.size());
  for (std::size_t i = 0; i < differing.size(); ++i) differing[i] = sample_[i] ^ first_[i];
  Elimination::Values differences{};
  for (std::size_t i = 0; i < count_; ++i)
    differences[i] = modular::minus(of_value(values[i]), first_values_[i]);
  const bool zero = std::all_of(values.begin(), values.end(), is_zero);
  switch (elimination_.insert(differing, differences)) {
    case Elimination::Found::contradiction:
      return contradict(zero);
    case Elimination::Found::known:
      ++spare_;
      prove(zero);
      break;
    case Elimination::Found::fresh:
      ++fresh_;
      for (std::uint32_t* proofs : {&proofs_, &proofs_of_zero_})
        *proofs = std::min(*proofs, kProofs - kProofsOfNew);
  }
  solve_if_due();
}

void SampleFormula::add_columns() {
  for (std::size_t word = 0; word < varied_.size(); ++word) {
    const std::uint64_t fresh = (sample_[word] ^ first_[word]) & ~varied_[word];
    for (std::size_t bit = 0; fresh >> bit != 0; ++bit) {
      if ((fresh >> bit & 1) != 0) elimination_.add_column(64 * word + bit);
      if (bit == 63) break;
    }
    varied_[word] |= fresh;
  }
}

void SampleFormula::solve_if_due() {
  if (fresh_ > elimination_.rows() / kGrownPart || (fresh_ > 0 && spare_ >= kMostSpare)) solve();
}

void SampleFormula::solve() {
  const auto solution =
      elimination_.solve(64 * first_.size(), [this]() noexcept { return random(); });
  const std::span first(bytes(first_), 8 * first_.size());
  check_sum_ = solution.check.empty() ? BitSum() : BitSum(solution.check, first);
  for (std::size_t i = 0; i < count_; ++i) sums_[i] = BitSum(solution.values[i], first);
  std::transform(varied_.begin(), varied_.end(), constant_.begin(),
                 [](std::uint64_t bits) { return ~bits; });
  fresh_ = spare_ = 0;
}

/// Xorshift: nothing that samples could be in step with.
std::uint64_t SampleFormula::random() noexcept {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

FormulaReport SampleFormula::report() const {
  const auto state = [this]() -> const char* {
    switch (unusable_) {
      case Unusable::size_unknown:
        return "not used: where samples lie in CUPTI's image is not known";
      case Unusable::too_large:
        return "not used: samples are too large";
      case Unusable::fractions:
        return "not used: values are no whole numbers below 2^53";
      case Unusable::no_sum:
        return "not used: values are no sums of a sample's bits";
      case Unusable::contradicted:
        return "not used: a sample contradicted it";
      case Unusable::columns:
        return "not used: too many bits of samples change";
      case Unusable::no:
        break;
    }
    if (used_) return "in use";
    return used_for_idle_ ? "in use for samples without traffic" : "learning";
  };
  return {state(), size_, elimination_.rows(), elimination_.columns(), begun_anew_};
}

}  // namespace lanescope::watch
