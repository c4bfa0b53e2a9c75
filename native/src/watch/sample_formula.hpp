#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lanescope::watch {

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
///
/// That values are such sums at all is proved by samples that CUPTI evaluates although they are
/// known: at first, after each one that is new, and one in 128 for ever. A single one that
/// contradicts ends the use of the formula.
class SampleFormula {
 public:
  static constexpr std::size_t kMostBytes = 4096;  // 89 with two metrics on an H200
  static constexpr std::size_t kMostValues = 4;

  /// For samples of so many bytes and values; with 0 or too many, all are left to CUPTI.
  SampleFormula(std::size_t bytes, std::size_t values);

  /// The values of a sample, or null where CUPTI is to evaluate it: then `learn` comes next.
  const double* find(const std::uint8_t* sample);

  /// Takes the values of the sample that `find` was last called with.
  void learn(std::span<const double> values);

  /// Forgets all, as after a new beginning of sampling.
  void forget();

  /// How many values differed from the formula's while it was in use. The first one ends that.
  std::uint64_t contradictions() const noexcept { return contradictions_; }

 private:
  using Number = std::uint64_t;  // below the prime
  struct Row {
    std::size_t pivot;  // its first column that is not 0, which is 1; 0 in all other rows
    std::vector<Number> columns;
    std::array<Number, kMostValues> values;
  };
  /// What a byte of a sample adds to a sum, by its value.
  struct Table {
    std::size_t byte;
    std::array<Number, 256> adds;
  };
  using Tables = std::vector<Table>;

  bool is_known() const noexcept;
  bool calculate() noexcept;
  Number sum(const Tables& tables) const noexcept;
  Tables tables_of(const std::vector<Number>& columns) const;
  bool is_proved(bool is_zero) noexcept;
  void begin(std::span<const double> values);
  void confirm(std::span<const double> values);
  void enter(std::span<const double> values);
  void add_columns();
  void insert(Row row);
  void prepare();
  std::uint64_t random() noexcept;

  std::size_t size_, count_;
  bool usable_;
  bool has_first_ = false, was_known_ = false;
  std::vector<std::uint64_t> first_, sample_;  // behind the last byte zeros
  std::array<Number, kMostValues> first_values_{};
  std::vector<std::size_t> columns_;  // the bits that have differed
  std::vector<Row> rows_;
  std::vector<std::uint64_t> constant_;   // words of a sample: the bits that never differed
  std::array<Tables, kMostValues> sums_;  // of what differs from the first sample's values
  Tables check_sum_;
  std::array<double, kMostValues> values_{};
  // evaluated although they were known: with all values 0, and others
  std::uint32_t proofs_of_zero_ = 0, proofs_ = 0;
  std::uint64_t contradictions_ = 0, state_ = 0x9E3779B97F4A7C15;
};

}  // namespace lanescope::watch
