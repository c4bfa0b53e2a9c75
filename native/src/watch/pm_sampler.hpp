#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "watch/counter_spool.hpp"
#include "watch/own_traffic.hpp"
#include "watch/pm_session.hpp"
#include "watch/sampling_load.hpp"
#include "watch/worker.hpp"

namespace lanescope::watch {

/// Samples the bytes on one GPU's links in hardware, each kind of link into a spool of its own.
///
/// A thread of its own fetches them. Where they come faster than it can, they are taken more
/// rarely, as `SamplingLoad` says. It never disturbs what is watched: what goes wrong after the
/// start is told in the report.
class PmSampler {
 public:
  /// Makes everything ready; takes the better part of a second. `targets`: one for each two of
  /// the metrics. Each fetching costs about 1 ms of CPU, so `decode_period_ns` should not be
  /// short. Throws `Error`.
  PmSampler(PmSettings settings, std::uint64_t decode_period_ns,
            const std::vector<CounterSpool::Target>& targets, const std::string& cupti);

  /// Begins sampling. Throws `Error`.
  void start();

  /// Waits until it is known that the rate holds, or sampling has ended, for so long at most.
  void settle(std::chrono::nanoseconds longest) const;

  /// Ends sampling, fetches what is left, and tells how it went; once.
  CounterReport stop();

 private:
  using Clock = PmSession::Clock;

  /// An image that is being evaluated, and how far that has come.
  struct Open {
    CounterImage* image;
    Decoded decoded;
    std::size_t next = 0;
  };

  void work(const Worker::Pause& pause);
  void fetch_and_judge();
  void finish();
  Decoded fetch_all();
  Decoded fetch(Clock::time_point until);
  bool evaluate(Clock::time_point until);
  std::chrono::nanoseconds covered() const noexcept;
  void take(std::uint64_t start_ns, std::uint64_t end_ns, std::span<const double> values);
  std::uint64_t samples() const noexcept { return spools_.front()->stream().counts().samples; }
  void flush();
  void complete();
  void change(std::uint64_t interval_ns);
  Clock::time_point next(Clock::time_point due) const;
  void restart(std::uint64_t interval_ns);
  CounterImage& image_for(Clock::duration since_last);
  Decoded decode(CounterImage& image);

  std::shared_ptr<const CuptiApi> api_;
  PmSession session_;
  std::chrono::nanoseconds period_;
  std::vector<std::unique_ptr<CounterSpool>> spools_;
  OwnTraffic own_;
  CounterImage image_;
  std::optional<CounterImage> large_image_;  // for one fetching that comes late
  std::optional<Open> open_;                 // samples wait in it
  Clock::time_point started_;
  Clock::time_point decoded_;   // when last
  Clock::time_point fetching_;  // begun when last
  SamplingLoad load_;
  SampleWork decoding_, evaluating_;  // of the fetching that goes on
  unsigned fetchings_ = 0;            // since sampling began, or began anew
  int overflows_ = 0;                 // in a row
  std::atomic<bool> settled_ = false;
  CounterReport report_;
  Worker worker_;  // last: its thread ends before what it uses
};

}  // namespace lanescope::watch
