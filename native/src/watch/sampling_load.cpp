#include "watch/sampling_load.hpp"

#include <algorithm>

namespace lanescope::watch {

namespace {

// Losses are judged together for so long.
constexpr std::chrono::milliseconds kSpan{400};
// Of the time that samples take to come. Above it the thread falls behind for ever.
constexpr double kMostLoad = 0.9;
// What is wanted after a change.
constexpr double kFineLoad = 0.75;
// Of a period: a thread that is busy fetches less often, so that what each time costs grows less.
constexpr double kMostFixed = 0.25;
constexpr double kMostLost = 0.05;
// One gap may be a machine that was suspended.
constexpr std::uint64_t kFewestGaps = 3;
// Of what fetchings of a span took: where more of it was learning, that is why samples were lost.
constexpr double kMostLearning = 0.25;
// For so long half of the interval has to promise to hold; each time four times as long.
constexpr std::chrono::seconds kQuiet{2};
constexpr unsigned kMostRaises = 3;

double share(std::chrono::nanoseconds took, std::chrono::nanoseconds of) noexcept {
  return static_cast<double>(took.count()) /
         static_cast<double>(std::max<std::int64_t>(of.count(), 1));
}

}  // namespace

std::uint64_t SamplingLoad::add(const Fetched& fetched, const CounterCounts& counts) {
  if (fetched.overflowed) return after_overflow(fetched);
  decoding_.add(fetched.decoded);
  evaluating_.add(fetched.evaluated);
  if (resuming_ && counts.samples == before_.samples) return interval_ns_;
  if (resuming_) begin_span(counts);
  resuming_ = false;
  const bool lost = loses(fetched, counts), known = decoding_.known() && evaluating_.known();
  if (known && load() > kMostLoad) return longer(false);
  if (lost) return longer(true);
  if (!known) return interval_ns_;
  settled_ = true;
  return shorter(fetched);
}

/// @return whether samples are lost again and again, and not by learning.
bool SamplingLoad::loses(const Fetched& fetched, const CounterCounts& counts) noexcept {
  sampled_ += fetched.sampled;
  worked_ += fetched.decoded.took + fetched.evaluated.took;
  learning_ += fetched.learning;
  if (sampled_ < kSpan) return false;
  const auto lost = static_cast<double>(counts.lost - before_.lost);
  const double all = lost + static_cast<double>(counts.samples - before_.samples);
  const bool found = counts.gaps - before_.gaps >= kFewestGaps && lost > kMostLost * all &&
                     share(learning_, worked_ + learning_) <= kMostLearning;
  begin_span(counts);
  late_before_ = false;
  return found;
}

/// What of a thread is needed now.
double SamplingLoad::load() const noexcept {
  return (decoding_.whole_ns() + evaluating_.whole_ns()) / static_cast<double>(interval_ns_);
}

/// What of a thread would be needed.
double SamplingLoad::load_at(std::uint64_t interval_ns) const noexcept {
  const double fixed = decoding_.fixed_ns() + evaluating_.fixed_ns();
  const double sample = decoding_.sample_ns() + evaluating_.sample_ns();
  return std::min(fixed / static_cast<double>(plan_.period.count()), kMostFixed) +
         sample / static_cast<double>(interval_ns);
}

/// `unexplained`: whether samples are lost whatever they cost, so that it is not tried again.
std::uint64_t SamplingLoad::longer(bool unexplained) noexcept {
  std::uint64_t found = 2 * interval_ns_;
  if (decoding_.known() && evaluating_.known())
    while (load_at(found) > kFineLoad && found < plan_.longest_ns) found *= 2;
  found = std::max(interval_ns_, std::min(found, plan_.longest_ns));
  if (unexplained || raised_) shortest_ns_ = found;
  quiet_ = {};
  return found;
}

std::uint64_t SamplingLoad::shorter(const Fetched& fetched) noexcept {
  const std::uint64_t half = std::max(interval_ns_ / 2, shortest_ns_);
  const bool holds = half < interval_ns_ && raises_ < kMostRaises && load_at(half) <= kFineLoad;
  quiet_ = holds ? quiet_ + fetched.sampled : std::chrono::nanoseconds(0);
  if (!holds || quiet_ < kQuiet * (1 << 2 * raises_)) return interval_ns_;
  quiet_ = {};
  ++raises_;
  return half;
}

std::uint64_t SamplingLoad::after_overflow(const Fetched& fetched) noexcept {
  // Whoever was stopped for longer than the buffer lasts, by Ctrl-Z say, finds it run over at any
  // rate, and so may whoever learned meanwhile. Twice in a row it is the rate.
  const std::chrono::nanoseconds buffered(plan_.buffered * interval_ns_);
  const bool learned = learning_ + fetched.learning > buffered / 4;
  const bool late = (fetched.sampled > buffered / 2 || learned) && !late_before_;
  late_before_ = late;
  if (late) return interval_ns_;
  const bool explained = decoding_.known() && evaluating_.known() && load() > kMostLoad;
  return longer(!explained);
}

void SamplingLoad::begin_again(std::uint64_t interval_ns, const CounterCounts& counts) noexcept {
  if (interval_ns != interval_ns_) raised_ = interval_ns < interval_ns_;
  interval_ns_ = interval_ns;
  decoding_.begin_again();
  evaluating_.begin_again();
  begin_span(counts);
  resuming_ = true;
}

void SamplingLoad::begin_span(const CounterCounts& counts) noexcept {
  before_ = counts;
  sampled_ = worked_ = learning_ = {};
}

}  // namespace lanescope::watch
