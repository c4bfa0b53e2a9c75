#pragma once

#include <atomic>
#include <thread>

namespace lanescope {

/// Spins until `reached()`. The CPU is given away now and then, or two threads that share one
/// would wait for each other a whole time slice long.
template <typename Reached>
void spin_until_reached(Reached&& reached) {
  constexpr int kSpinsBeforeYield = 4096;
  for (int spins = 0; !reached(); ++spins)
    if (spins == kSpinsBeforeYield) std::this_thread::yield(), spins = 0;
}

/// Where threads wait for each other round after round; the last of a round says for all of
/// them whether it takes place.
class Rendezvous {
 public:
  /// Before the first round, while nobody meets.
  void reset(int threads) {
    threads_ = threads;
    arrived_ = 0;
    opened_ = 0;
  }

  /// Waits for all threads to come to round number `round`, 0 first; returns what `decide`
  /// said, which the last of them calls.
  template <typename Decide>
  bool meet(int round, Decide&& decide) {
    if (arrived_.fetch_add(1) + 1 == (static_cast<long>(round) + 1) * threads_) {
      goes_on_ = decide();  // nobody reads it now: the round before is over for all
      opened_.store(round + 1, std::memory_order_release);
    } else {
      spin_until_reached([&] { return opened_.load(std::memory_order_acquire) > round; });
    }
    return goes_on_;
  }

 private:
  int threads_ = 0;
  bool goes_on_ = true;
  std::atomic<long> arrived_{0};
  std::atomic<int> opened_{0};
};

}  // namespace lanescope
