#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/counter_stream.hpp"
#include "watch/sample_formula.hpp"
#include "watch/spool_file.hpp"

namespace lanescope::watch {

/// That samples were taken more rarely, as they came faster than they could be fetched, or less
/// rarely again.
struct IntervalChange {
  double at_seconds;          ///< Since the start.
  std::uint64_t interval_ns;  ///< From then on.
};

/// What a sampler tells when it has stopped.
struct CounterReport {
  CounterCounts counts;
  std::uint64_t restarts = 0;             ///< Times that sampling was begun anew after an overflow.
  std::uint64_t reads = 0;                ///< Calls that fetched samples.
  std::uint64_t asked = 0;                ///< Samples whose values CUPTI was asked for.
  std::uint64_t contradictions = 0;       ///< See `SampleFormula`.
  FormulaReport formula{};                ///< What was learned of samples.
  double learning_seconds = 0;            ///< Of wall time: samples that taught something.
  double cpu_seconds = 0;                 ///< Of the sampler's thread, all in all.
  double decode_cpu_seconds = 0;          ///< Of them: fetching samples.
  double evaluate_cpu_seconds = 0;        ///< Of them: turning samples into bytes.
  double wall_seconds = 0;                ///< From start to stop.
  double restart_seconds = 0;             ///< Of wall time: to begin anew, all times together.
  std::vector<IntervalChange> changes{};  ///< Empty where the rate held.
  std::vector<std::string> errors{};      ///< Sentences; empty when all went well.
};

/// A spool of counter records and what is to be said of it.
class CounterSpool {
 public:
  /// Where the file goes, and its first line, with the newline.
  struct Target {
    std::string path;
    std::string header;
  };

  /// Creates the file; see `SpoolFile` and `CounterStream`. Throws `Error`.
  CounterSpool(const Target& target, std::uint64_t interval_ns, bool drops_first)
      : file_(target.path, target.header),
        header_(target.header),
        longest_ns_(interval_ns),
        stream_(interval_ns, drops_first) {}

  CounterStream& stream() noexcept { return stream_; }

  /// Writes what the stream holds.
  void flush() {
    if (const auto records = stream_.take(); !records.empty()) file_.write(records);
  }

  /// Samples are to be so long from now on. Where that is longer than ever before, the header says
  /// so from now on, also of the other records. Throws `Error` where the header has no room for it,
  /// or cannot be written.
  void set_interval(std::uint64_t interval_ns);

  /// Adds to a report what the stream and the file know.
  void complete(CounterReport& report) const;

 private:
  SpoolFile file_;
  std::string header_;
  std::uint64_t longest_ns_;
  CounterStream stream_;
};

}  // namespace lanescope::watch
