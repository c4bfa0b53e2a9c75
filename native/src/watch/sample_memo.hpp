#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lanescope::watch {

/// Values of samples that CUPTI was asked for before, found again by the sample's own bytes.
///
/// CUPTI takes about 1 us to tell the values of one sample, 7 us when it is asked rarely, and
/// most samples are like others: of 5,057 of a link in use 58 were different. Their bytes are
/// opaque, so that two samples count as alike only where all bytes agree but those that are known
/// not to matter: their number and their time. Which these are is learned from samples whose
/// values are all 0: counters do not go below 0, so that whatever differs between two of these is
/// no counter. That takes values which are counters themselves and no differences of some. It
/// remembers for use only once many samples, of several values, were asked for and were as
/// remembered.
///
/// In place of the bytes that matter it keeps 128 bits that are mixed of them. Two samples that
/// differ have the same ones in 1 of 2^128 cases, as their bytes know nothing of the mixing. In
/// 10^12 samples, 116 days at 100 kHz, each beside 2^18 others, one is taken for another with a
/// chance of less than 1 in 10^21.
///
/// So a wrong value can only come of a byte that was taken for one that does not matter. That
/// shows in whatever samples it changes, and each one that stays is checked for ever: 1 in
/// 64 that are found, and 1 in 256 once some checks went well.
class SampleMemo {
 public:
  static constexpr std::size_t kMostBytes = 4096;  // those of an H200 have 89
  static constexpr std::size_t kMostValues = 2;

  /// For samples of so many bytes and values; of larger ones, and of none, nothing is remembered.
  SampleMemo(std::size_t bytes, std::size_t values);
  SampleMemo(const SampleMemo&) = delete;
  SampleMemo& operator=(const SampleMemo&) = delete;

  /// The values of such a sample, or null when it is to be asked for. Every so often a known one
  /// is asked for all the same, so that what is remembered is checked for as long as it lasts.
  const double* find(const std::uint8_t* sample);

  /// Takes what was answered for the sample that `find` was last called with, and its times
  /// (CLOCK_REALTIME, ns): eight bytes of a sample of zeros that are one of them do not matter, not
  /// even those that move only every 4.3 s or 18 min, when there may be no zeros to learn it from.
  void learn(std::span<const double> values, std::span<const std::uint64_t> times = {});

  /// Forgets all, as after a new beginning of sampling.
  void forget();

  /// How many answers differed from what was remembered. From the first on nothing is any more.
  std::uint64_t contradictions() const noexcept { return contradictions_; }

  /// What the entries take: 40 KB at first, 10 MB at most, as many different samples come.
  std::size_t memory_bytes() const noexcept { return entries_.size() * sizeof(Entry); }

 private:
  using Words = std::vector<std::uint64_t>;
  struct Fingerprint {
    std::uint64_t first = 0, second = 0;
    bool operator==(const Fingerprint&) const = default;
  };
  struct Entry {
    Fingerprint fingerprint;
    std::array<double, kMostValues> values{};
    std::uint32_t last = 0;         // found: the number of the look-up, which wraps
    std::uint16_t until_check = 0;  // so many more look-ups; of no entry when it is 0
    std::uint16_t checks = 0;       // that went well, as far as they are counted
  };

  Fingerprint fingerprint_of(const std::uint8_t* sample) const noexcept;
  std::span<Entry> set_of(const Fingerprint& fingerprint) noexcept;
  Entry& place_in(std::span<Entry> set) noexcept;
  bool on_trial() const noexcept;
  void check(std::span<const double> values);
  void enter(std::span<const double> values);
  void grow();
  void learn_zeros(std::span<const std::uint64_t> times);
  bool ignore(std::size_t byte);
  void clear();

  std::size_t size_, words_, values_;
  bool usable_;
  Words mask_;   // of a sample's bytes, those that matter
  Words raw_;    // the last sample that was asked for
  Words zeros_;  // a sample with all values 0
  bool has_zeros_ = false;
  std::uint64_t contradictions_ = 0;
  std::uint64_t confirmed_ = 0, different_ = 0;  // on trial: answers as remembered, and other ones
  std::uint64_t pushed_out_ = 0;                 // entries, by others, since there were so many
  std::uint32_t now_ = 0;                        // look-ups so far
  Fingerprint fingerprint_;                      // of the last sample
  Entry* found_ = nullptr;                       // that it has
  std::vector<Entry> entries_;                   // set by set
};

}  // namespace lanescope::watch
