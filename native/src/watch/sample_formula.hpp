#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "watch/bit_sum.hpp"
#include "watch/elimination.hpp"

namespace lanescope::watch {

/// What has been learned of samples, for a report.
struct FormulaReport {
  std::string state;               ///< "in use", "learning", or why it is not used.
  std::uint64_t sample_bytes = 0;  ///< In CUPTI's image; 0 where that is not known.
  std::uint64_t rows = 0;          ///< Samples that are no sums of others.
  std::uint64_t columns = 0;       ///< Bits that have differed.
  std::uint64_t begun_anew = 0;    ///< Times that all was forgotten.
};

/// How the values of samples follow from their bits, learned from those that CUPTI evaluates.
///
/// CUPTI takes 1 to 8 us for the values of one sample, more than there is time for every 2 us. A
/// sample's bytes are opaque. But metrics are sums of counters, and on an H200 a counter lies in a
/// sample as a whole number with some of its bits inverted, the same ones in all samples: so a
/// value is a sum of bits, each times a factor. A sample is learned as its difference from the
/// first one: differences of bits, and of values. What is a sum of differences that are known has
/// the same sum of their values; whatever is not, such as a bit that differs for the first time, is
/// evaluated by CUPTI and learned. Nothing is assumed of where counters lie.
///
/// The arithmetic is exact, modulo a prime of 61 bits: by Gaussian elimination, and in `find` by a
/// random check sum that is 0 for sums of known differences, and else with a chance of 2^-61.
/// What `find` uses is solved anew after some samples were learned, not after each: until then it
/// knows fewer samples, and all of them rightly.
///
/// That values are such sums at all is proved by samples that CUPTI evaluates although they are
/// known: at first, after each one that is new, and one in 128 for ever. A single one that
/// contradicts ends the use of the formula. Where it was not in use yet, all is learned anew, up to
/// eight times.
class SampleFormula {
 public:
  static constexpr std::size_t kMostBytes = 16'384;  // 89 with two metrics on an H200
  static constexpr std::size_t kMostValues = Elimination::kMostValues;
  static constexpr std::size_t kMostColumns = 2'048;  // seconds of elimination, 32 MB

  /// What the learning of a sample was good for.
  enum class Learned {
    progress,  ///< Something new, or a proof: such samples come to an end.
    nothing,   ///< It was a check, or nothing can be learned: such samples come for ever.
  };

  /// For samples of so many bytes and values; with 0 or too many, all are left to CUPTI.
  SampleFormula(std::size_t bytes, std::size_t values);

  /// The values of a sample, or null where CUPTI is to evaluate it: then `learn` comes next.
  const double* find(const std::uint8_t* sample);

  /// Takes the values of the sample that `find` was last called with.
  Learned learn(std::span<const double> values);

  /// Wants new proofs of what was learned, as after a new beginning of sampling. What contradicts
  /// it now has all learned anew.
  void doubt() noexcept;

  /// How many values differed from the formula's while it was in use. The first one ends that.
  std::uint64_t contradictions() const noexcept { return contradictions_; }

  /// How many numbers were multiplied to learn.
  std::uint64_t work() const noexcept { return work_ + elimination_.work(); }

  FormulaReport report() const;

 private:
  using Number = modular::Number;
  enum class Unusable { no, size_unknown, too_large, fractions, no_sum, contradicted, columns };

  bool is_known() const noexcept;
  bool calculate() noexcept;
  bool is_proved(bool is_zero) const noexcept;
  void begin(std::span<const double> values);
  void confirm(std::span<const double> values);
  void enter(std::span<const double> values);
  void add_columns();
  void prove(bool is_zero) noexcept;
  void contradict(bool is_zero);
  void forget();
  void solve_if_due();
  void solve();
  std::uint64_t random() noexcept;
  const std::uint8_t* bytes(const std::vector<std::uint64_t>& words) const noexcept {
    return reinterpret_cast<const std::uint8_t*>(words.data());
  }

  std::size_t size_, count_;
  Unusable unusable_ = Unusable::no;
  bool has_first_ = false, was_known_ = false;
  bool doubted_ = false;                       // what was learned, since a new beginning
  std::vector<std::uint64_t> first_, sample_;  // behind the last byte zeros
  std::array<Number, kMostValues> first_values_{};
  std::vector<std::uint64_t> varied_;  // words of a sample: the bits that have differed
  Elimination elimination_;
  // What `find` uses: as things were when last solved.
  std::vector<std::uint64_t> constant_;   // words of a sample: the bits that never differed
  std::array<BitSum, kMostValues> sums_;  // of what differs from the first sample's values
  BitSum check_sum_;
  std::array<double, kMostValues> values_{};
  std::size_t fresh_ = 0, spare_ = 0;  // since then: rows, and samples that were known already
  bool used_ = false, used_for_idle_ = false;  // proved once, since a new beginning
  // evaluated although they were known: with all values 0, and others
  std::uint32_t proofs_of_zero_ = 0, proofs_ = 0;
  std::uint32_t fractions_ = 0;
  std::uint64_t contradictions_ = 0, begun_anew_ = 0, work_ = 0, state_ = 0x9E3779B97F4A7C15;
};

}  // namespace lanescope::watch
