#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watch/counter_spool.hpp"
#include "watch/probe_round.hpp"
#include "watch/spool_file.hpp"
#include "watch/worker.hpp"

namespace lanescope::watch {

/// What a probe tells when it has stopped.
struct ProbeReport {
  std::uint64_t records = 0;
  std::uint64_t rounds = 0;           ///< Whole ones.
  double cpu_seconds = 0;             ///< Of the probe's thread.
  double wall_seconds = 0;            ///< From start to stop.
  std::vector<std::string> errors{};  ///< Sentences; empty when all went well.
};

/// Sends small copies over a link, again and again, and writes down how long they take.
///
/// One thread copies. What goes wrong after the start ends the probe, is told in the report,
/// and harms nobody else.
class LinkProbe {
 public:
  /// Makes everything ready on a GPU; takes up to a second. Throws `Error`; see `CudaLink`,
  /// `SpoolFile` and `require_sound`.
  LinkProbe(int device, const ProbeSettings& settings, const CounterSpool::Target& target);

  /// For any link.
  LinkProbe(std::unique_ptr<ProbedLink> link, const ProbeSettings& settings,
            const CounterSpool::Target& target);

  void start();

  /// Ends the probe at once, in the midst of a copy if need be, and tells how it went; once.
  ProbeReport stop();

 private:
  using Clock = std::chrono::steady_clock;

  void work(const Worker::Pause& pause);
  void probe(const Worker::Pause& pause);
  void flush();

  std::unique_ptr<ProbedLink> link_;
  ProbeRounds rounds_;
  SpoolFile file_;
  std::vector<ProbeRecord> records_;  // not yet in the file
  Clock::time_point flushed_;
  ProbeReport report_;
  Worker worker_;  // last: its thread ends before what it uses
};

}  // namespace lanescope::watch
