#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "watch/spool_file.hpp"

namespace lanescope::watch {

/// Bytes that a source counted between two times (ns of `watch_time_ns`).
struct CounterSample {
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  double rx_bytes;  ///< Negative or not a number: unknown.
  double tx_bytes;
  bool own = false;  ///< Whether the sampler itself used the link meanwhile.
};

/// What became of the samples so far.
struct CounterCounts {
  std::uint64_t samples = 0;   ///< Written, with bytes that are known.
  std::uint64_t lost = 0;      ///< Intervals of which nothing is known.
  std::uint64_t gaps = 0;      ///< Runs of those.
  std::uint64_t repeated = 0;  ///< Dropped, since they ended before the last one did.
};

/// Makes records of samples: finds the gaps between them and writes what is unknown as such.
class CounterStream {
 public:
  /// `interval_ns`: how long a sample should be. `drops_first`: whether the first sample after
  /// a start is none, as that of PM sampling, which begins up to 0.8 s before the start.
  CounterStream(std::uint64_t interval_ns, bool drops_first);

  /// Takes the next sample. One with more bytes than a record holds, 4 GiB, becomes several of
  /// equal length. One that begins more than half an interval and 2.5 µs after the end of the last
  /// leaves a gap; less is the source's clock being corrected, and belongs together. So one sample
  /// of 2 µs that is lost alone goes unnoticed; sources lose many at a time.
  void add(const CounterSample& sample);

  /// Says that sampling was begun anew: the next sample is a first one.
  void begin_again() noexcept { dropping_ = drops_first_; }

  /// Says that samples are to be so long from now on.
  void set_interval(std::uint64_t interval_ns) noexcept { interval_ns_ = interval_ns; }

  /// The records since the last call.
  std::vector<CounterRecord> take();

  const CounterCounts& counts() const noexcept { return counts_; }

 private:
  std::uint64_t least_gap_ns() const noexcept;
  void put_unknown(std::uint64_t end_ns);
  void put(const CounterSample& sample);

  std::uint64_t interval_ns_;
  bool drops_first_;
  bool dropping_;
  std::optional<std::uint64_t> end_ns_;  // of the last record
  std::vector<CounterRecord> records_;
  CounterCounts counts_;
};

/// Follows a counter of 32 bits, which begins anew at 2^32.
class WrappingCounter {
 public:
  /// `most_per_second`: the counter cannot be faster.
  explicit WrappingCounter(double most_per_second) : most_per_second_(most_per_second) {}

  /// What was counted since the last reading, `elapsed_ns` ago; none at the first, and when
  /// it may have begun anew more often than once.
  std::optional<std::uint32_t> advance(std::uint32_t value, std::uint64_t elapsed_ns);

 private:
  double most_per_second_;
  std::optional<std::uint32_t> last_;
};

/// Follows a counter of 64 bits, which only grows until something sets it back.
class GrowingCounter {
 public:
  /// What was counted since the last reading; none at the first, and when it was set back.
  std::optional<std::uint64_t> advance(std::uint64_t value);

 private:
  std::optional<std::uint64_t> last_;
};

}  // namespace lanescope::watch
