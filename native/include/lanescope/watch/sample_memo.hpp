#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lanescope::watch {

/// Values of samples that CUPTI was asked for before, found again by the sample's own bytes.
///
/// CUPTI takes about 1 us to tell the values of one sample, and most samples are like others: of
/// 5,057 of a link in use 58 were different. Their bytes are opaque, so that two samples count as
/// alike only where all bytes agree but those that are known not to matter: their number and
/// their time. Which these are is learned from samples whose values are all 0: counters do not
/// go below 0, so that whatever differs between two of these is no counter. That takes values
/// which are counters themselves and no differences of some. It remembers for use only once many
/// samples, of several values, were asked for and were as remembered.
class SampleMemo {
 public:
  static constexpr std::size_t kMostBytes = 4096;  // those of an H200 have 89
  static constexpr std::size_t kMostValues = 4;

  /// For samples of so many bytes and values; of larger ones, and of none, nothing is remembered.
  SampleMemo(std::size_t bytes, std::size_t values);

  /// The values of such a sample, or null when it is to be asked for. Every so often a known one
  /// is asked for all the same, so that what is remembered is checked for as long as it lasts.
  const double* find(const std::uint8_t* sample);

  /// Takes what was answered for the sample that `find` was last called with.
  void learn(std::span<const double> values);

  /// Forgets all, as after a new beginning of sampling.
  void forget();

  /// How many answers differed from what was remembered. From the first on nothing is any more.
  std::uint64_t contradictions() const noexcept { return contradictions_; }

 private:
  using Bytes = std::vector<std::uint64_t>;
  struct Entry {
    std::uint64_t epoch = 0;  // of no entry when it is 0
    std::uint64_t hits = 0;
    std::array<double, kMostValues> values{};
  };

  std::size_t place() const noexcept;
  bool holds(std::size_t place) const noexcept;
  bool on_trial() const noexcept;
  void learn_zeros();

  std::size_t size_, words_, values_;
  bool usable_;
  Bytes mask_, raw_, bytes_;  // of the last sample: as it is, and what matters of it
  Bytes zeros_;               // a sample with all values 0
  bool has_zeros_ = false;
  std::uint64_t epoch_ = 1, contradictions_ = 0;
  std::uint64_t confirmed_ = 0, different_ = 0;  // on trial: answers as remembered, and other ones
  std::vector<Entry> entries_;
  Bytes remembered_;  // what matters of the samples of all entries
};

}  // namespace lanescope::watch
