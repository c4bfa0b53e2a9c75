#pragma once

#include <chrono>
#include <cstdint>

#include "watch/counter_stream.hpp"
#include "watch/sampling_cost.hpp"

namespace lanescope::watch {

/// How one fetching of samples went.
struct Fetched {
  /// From the beginning of the fetching before to that of this; where samples were left for later,
  /// how long those lasted that were written.
  std::chrono::nanoseconds sampled;
  bool overflowed;                    ///< Whether the hardware's buffer ran over meanwhile.
  std::chrono::nanoseconds learning;  ///< What will not be needed again; in no work below.
  SampleWork decoded;                 ///< By CUPTI, into an image.
  SampleWork evaluated;               ///< Of an image, until they were written.
};

/// How samples are taken and fetched.
struct SamplingPlan {
  std::uint64_t interval_ns;        ///< From sample to sample, as is wanted.
  std::uint64_t longest_ns;         ///< No interval is longer.
  std::chrono::nanoseconds period;  ///< From fetching to fetching.
  std::uint64_t buffered;           ///< Samples that the hardware's buffer holds.
};

/// Decides how often can be sampled: what a sample costs to be fetched tells whether samples come
/// faster than that, and how much rarer they have to be.
///
/// The interval is the one wanted, times a power of two: as soon as the cost is known, the shortest
/// with which three quarters of a thread are enough. A thread that is late now and then loses
/// nothing, since the hardware's buffer holds what comes meanwhile: that is no reason to sample
/// more rarely. Nor is what it learns when traffic begins, which comes to an end. Where samples
/// turn out to cost less than they did, as a program's start is over, the interval is halved again:
/// after a while, after a longer one the next time, and a few times at most.
class SamplingLoad {
 public:
  explicit SamplingLoad(const SamplingPlan& plan)
      : plan_(plan), interval_ns_(plan.interval_ns), shortest_ns_(plan.interval_ns) {}

  /// Takes the next fetching and all that became of the samples until now.
  /// @return the interval that is to be from now on; the present one where the rate holds.
  std::uint64_t add(const Fetched& fetched, const CounterCounts& counts);

  /// Says that sampling was begun anew, every so many ns: what was lost meanwhile says nothing of
  /// the rate.
  void begin_again(std::uint64_t interval_ns, const CounterCounts& counts) noexcept;

  /// Whether the present rate is known to hold, or was.
  bool settled() const noexcept { return settled_; }

 private:
  std::uint64_t after_overflow(const Fetched& fetched) noexcept;
  bool loses(const Fetched& fetched, const CounterCounts& counts) noexcept;
  double load() const noexcept;
  double load_at(std::uint64_t interval_ns) const noexcept;
  std::uint64_t longer(bool unexplained) noexcept;
  std::uint64_t shorter(const Fetched& fetched) noexcept;
  void begin_span(const CounterCounts& counts) noexcept;

  SamplingPlan plan_;
  std::uint64_t interval_ns_;
  std::uint64_t shortest_ns_;  // that may be tried again
  SamplingCost decoding_, evaluating_;
  // Of the span that goes on, in which losses are counted.
  std::chrono::nanoseconds sampled_{0}, worked_{0}, learning_{0};
  CounterCounts before_;      // at its beginning
  bool resuming_ = false;     // no sample came since a new beginning
  bool late_before_ = false;  // an overflow that came late was the last one
  bool settled_ = false;
  bool raised_ = false;  // the present interval was come to by halving one
  unsigned raises_ = 0;
  std::chrono::nanoseconds quiet_{0};  // for so long half of the interval would have held
};

}  // namespace lanescope::watch
