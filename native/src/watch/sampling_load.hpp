#pragma once

#include <chrono>
#include <cstdint>

#include "watch/counter_stream.hpp"

namespace lanescope::watch {

/// How one fetching of samples went.
struct Fetched {
  /// From the beginning of the fetching before to that of this; where samples were left for later,
  /// how long those lasted that were written.
  std::chrono::nanoseconds sampled;
  std::chrono::nanoseconds took;      ///< The fetching itself, until its samples were written.
  bool overflowed;                    ///< Whether the hardware's buffer ran over meanwhile.
  std::chrono::nanoseconds learning;  ///< Of what it took: what will not be needed again.
};

/// Decides whether samples come faster than they can be fetched, and how much rarer they have to
/// be.
///
/// A thread that is late now and then loses nothing, since the hardware's buffer holds what comes
/// meanwhile: that is no reason to sample more rarely. Nor is what it learns when traffic begins,
/// which comes to an end.
class SamplingLoad {
 public:
  /// `buffered`: what the hardware's buffer holds at the rate of the beginning.
  explicit SamplingLoad(std::chrono::nanoseconds buffered) : buffered_(buffered) {}

  /// Takes the next fetching and all that became of the samples until now.
  /// @return by what factor the interval has to grow, at most 4 at once; 1 where the rate holds.
  unsigned add(const Fetched& fetched, const CounterCounts& counts);

  /// Says that sampling was begun anew: what was lost meanwhile says nothing of the rate.
  void begin_again(const CounterCounts& counts) noexcept;

 private:
  unsigned after_overflow(const Fetched& fetched) noexcept;
  void begin_span(const CounterCounts& counts) noexcept;

  std::chrono::nanoseconds buffered_;
  // Of the span that goes on; what they took without learning.
  std::chrono::nanoseconds sampled_{0}, took_{0}, longest_{0}, learning_{0};
  unsigned fetchings_ = 0;
  CounterCounts before_;      // at its beginning
  bool resuming_ = false;     // no sample came since a new beginning
  bool late_before_ = false;  // an overflow that came late was the last one
};

}  // namespace lanescope::watch
