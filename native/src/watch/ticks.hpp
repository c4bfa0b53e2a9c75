#pragma once

#include <cstdint>

#include "watch/watch_clock.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/// The processor's own counter, which is read in a third of the time that a clock takes. It counts
/// evenly on all cores of a machine where `ticks_are_steady`.
namespace lanescope::watch {

inline bool ticks_are_steady() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kPowerManagement = 0x80000007U, kInvariantTsc = 1U << 8;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariantTsc) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

/// @return the counter; 0 on processors that have none.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return 0;
#endif
}

/// The counter and CLOCK_MONOTONIC (ns) at one time.
struct TickPair {
  std::uint64_t ticks;
  std::int64_t monotonic_ns;
};

/// @return the shortest of some tries: a thread may lose its processor between two readings.
inline TickPair tick_pair() noexcept {
  TickPair found{};
  std::uint64_t shortest = UINT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::uint64_t before = ticks();
    const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t took = ticks() - before;
    if (took >= shortest) continue;
    shortest = took;
    found = {before + took / 2, now};
  }
  return found;
}

}  // namespace lanescope::watch
