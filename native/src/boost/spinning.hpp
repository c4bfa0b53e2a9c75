#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

#include "watch/watch_clock.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// How long threads wait for what will be there in a moment without giving up their CPU.
namespace lanescope::boost {

inline void pause_briefly() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How long a thread that copies waits for more: what sleeps is woken too late to be of use for
/// small copies, and a program that copies once copies again.
class Spinning {
 public:
  /// @param amid whether a copy is under way.
  bool goes_on(bool amid) noexcept {
    constexpr int kPauses = 16;
    constexpr std::int64_t kMostNs = 50'000, kMostAmidNs = 1'000'000;
    for (int i = 0; i < kPauses; ++i) pause_briefly();
    return watch::clock_ns(CLOCK_MONOTONIC) - since_ < (amid ? kMostAmidNs : kMostNs);
  }

 private:
  std::int64_t since_ = watch::clock_ns(CLOCK_MONOTONIC);
};

/// Waits ever longer: pauses at first, then lets others run, then sleeps for 50 µs each time.
class Patience {
 public:
  void wait() noexcept {
    constexpr int kPauses = 200, kYields = 2000;
    constexpr timespec kSleep{0, 50'000};
    ++times_;
    if (times_ < kPauses)
      pause_briefly();
    else if (times_ < kYields)
      sched_yield();
    else
      nanosleep(&kSleep, nullptr);
  }
  void begin_again() noexcept { times_ = 0; }

 private:
  int times_ = 0;
};

}  // namespace lanescope::boost
