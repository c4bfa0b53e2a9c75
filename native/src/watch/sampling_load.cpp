#include "watch/sampling_load.hpp"

namespace lanescope::watch {

namespace {

// Fetchings are judged together for so long: the first verdict comes within the first second.
constexpr std::chrono::milliseconds kSpan{400};
// Of the time that samples take to come. Above it the thread falls behind for ever.
constexpr double kMostLoad = 0.9;
// What is wanted after the change.
constexpr double kFineLoad = 0.6;
constexpr double kMostLost = 0.05;
// One gap may be a machine that was suspended.
constexpr std::uint64_t kFewestGaps = 3;
constexpr unsigned kMostFactor = 1024;

}  // namespace

unsigned SamplingLoad::add(const Fetched& fetched, const CounterCounts& counts) {
  if (fetched.overflowed) return after_overflow(fetched);
  if (resuming_) {
    if (counts.samples != before_.samples) {
      begin_span(counts);
      resuming_ = false;
    }
    return 1;
  }
  sampled_ += fetched.sampled;
  took_ += fetched.took;
  if (sampled_ < kSpan) return 1;
  const double load = static_cast<double>(took_.count()) / static_cast<double>(sampled_.count());
  const auto lost = static_cast<double>(counts.lost - before_.lost);
  const double all = lost + static_cast<double>(counts.samples - before_.samples);
  const bool loses = counts.gaps - before_.gaps >= kFewestGaps && lost > kMostLost * all;
  begin_span(counts);
  late_before_ = false;
  if (load < kMostLoad && !loses) return 1;
  unsigned factor = 2;
  while (load / factor > kFineLoad && factor < kMostFactor) factor *= 2;
  return factor;
}

unsigned SamplingLoad::after_overflow(const Fetched& fetched) noexcept {
  // Whoever was stopped for longer than the buffer lasts, by Ctrl-Z say, finds it run over at any
  // rate. Twice in a row it is the rate.
  const bool late = fetched.sampled > buffered_ / 2 && !late_before_;
  late_before_ = late;
  return late ? 1 : 2;
}

void SamplingLoad::begin_again(const CounterCounts& counts) noexcept {
  begin_span(counts);
  resuming_ = true;
}

void SamplingLoad::begin_span(const CounterCounts& counts) noexcept {
  before_ = counts;
  sampled_ = took_ = {};
}

}  // namespace lanescope::watch
