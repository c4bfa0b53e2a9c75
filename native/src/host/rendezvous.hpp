#pragma once

#include <atomic>
#include <thread>

#include "cuda/host_clock.hpp"

namespace lanescope {

/// Spins until `reached()`, for so long at most; returns whether it came to that. The CPU is given
/// away now and then, or two threads that share one would wait for each other a whole time slice
/// long.
template <typename Reached>
bool spin_until_reached(Reached&& reached, double most_seconds) {
  constexpr int kSpinsBeforeYield = 4096;
  const auto begin = HostClock::now();
  for (int spins = 0; !reached(); ++spins) {
    if (spins < kSpinsBeforeYield) continue;
    if (seconds_since(begin) > most_seconds) return false;
    std::this_thread::yield();
    spins = 0;
  }
  return true;
}

/// Where threads wait for each other round after round; the last of a round says for all of
/// them whether it takes place.
///
/// They spin, longer than a CPU is usually lent to somebody else, and then sleep: who is waited
/// for has lost his, and to be woken later than others no longer makes a difference.
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
    const long all = (static_cast<long>(round) + 1) * threads_;
    if (arrived_.fetch_add(1) + 1 == all) {
      goes_on_ = decide();  // nobody reads it now: the round before is over for all
      opened_.store(round + 1, std::memory_order_release);
      opened_.notify_all();
    } else {
      wait_for(round);
    }
    return goes_on_;
  }

 private:
  static constexpr double kSpinSeconds = 20e-3;

  void wait_for(int round) {
    auto opened = [&] { return opened_.load(std::memory_order_acquire); };
    if (spin_until_reached([&] { return opened() > round; }, kSpinSeconds)) return;
    for (int seen = opened(); seen <= round; seen = opened()) opened_.wait(seen);
  }

  int threads_ = 0;
  bool goes_on_ = true;
  std::atomic<long> arrived_{0};
  std::atomic<int> opened_{0};
};

}  // namespace lanescope
