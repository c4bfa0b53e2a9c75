#include "watch/sampling_load.hpp"

#include <algorithm>

namespace lanescope::watch {

namespace {

// Fetchings are judged together for so long: the first verdict comes within the first second.
constexpr std::chrono::milliseconds kSpan{400};
// Or until they have taken so long, where samples that wait make each take 0.4 s.
constexpr std::chrono::milliseconds kLongestWork{600};
// Without the longest they have to take too long as well: it may be one that was held up.
constexpr unsigned kFewestFetchings = 2;
// Of the time that samples take to come. Above it the thread falls behind for ever.
constexpr double kMostLoad = 0.9;
// What is wanted after the change.
constexpr double kFineLoad = 0.75;
constexpr double kMostLost = 0.05;
// One gap may be a machine that was suspended.
constexpr std::uint64_t kFewestGaps = 3;
// One verdict may be wrong; another follows within a second.
constexpr unsigned kMostFactor = 4;
// Of what fetchings of a span took: where more of it was learning, that is why samples were lost.
constexpr double kMostLearning = 0.25;

double share(std::chrono::nanoseconds took, std::chrono::nanoseconds of) noexcept {
  return static_cast<double>(took.count()) /
         static_cast<double>(std::max<std::int64_t>(of.count(), 1));
}

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
  const auto worked = fetched.took - fetched.learning;
  took_ += worked;
  longest_ = std::max(longest_, worked);
  learning_ += fetched.learning;
  if (++fetchings_ < kFewestFetchings || (sampled_ < kSpan && took_ < kLongestWork)) return 1;
  const double load =
      std::min(share(took_, sampled_), share(took_ - longest_, sampled_ - longest_));
  const auto lost = static_cast<double>(counts.lost - before_.lost);
  const double all = lost + static_cast<double>(counts.samples - before_.samples);
  const bool loses = counts.gaps - before_.gaps >= kFewestGaps && lost > kMostLost * all &&
                     share(learning_, took_ + learning_) <= kMostLearning;
  begin_span(counts);
  late_before_ = false;
  if (load < kMostLoad && !loses) return 1;
  unsigned factor = 2;
  while (load / factor > kFineLoad && factor < kMostFactor) factor *= 2;
  return factor;
}

unsigned SamplingLoad::after_overflow(const Fetched& fetched) noexcept {
  // Whoever was stopped for longer than the buffer lasts, by Ctrl-Z say, finds it run over at any
  // rate, and so may whoever learned meanwhile. Twice in a row it is the rate.
  const bool learned = learning_ + fetched.learning > buffered_ / 4;
  const bool late = (fetched.sampled > buffered_ / 2 || learned) && !late_before_;
  late_before_ = late;
  return late ? 1 : 2;
}

void SamplingLoad::begin_again(const CounterCounts& counts) noexcept {
  begin_span(counts);
  resuming_ = true;
}

void SamplingLoad::begin_span(const CounterCounts& counts) noexcept {
  before_ = counts;
  sampled_ = took_ = longest_ = learning_ = {};
  fetchings_ = 0;
}

}  // namespace lanescope::watch
