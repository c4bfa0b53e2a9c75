#pragma once

#include <time.h>

#include <cstdint>

namespace lanescope::watch {

/// A clock in whole nanoseconds.
inline std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::int64_t>(now.tv_nsec);
}

/// @return by how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC now.
///
/// The shortest of some tries: a thread may lose its processor between two readings.
inline std::int64_t realtime_ahead_ns() noexcept {
  std::int64_t found = 0;
  std::int64_t shortest = INT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::int64_t before = clock_ns(CLOCK_MONOTONIC);
    const std::int64_t real = clock_ns(CLOCK_REALTIME);
    const std::int64_t took = clock_ns(CLOCK_MONOTONIC) - before;
    if (took >= shortest) continue;
    shortest = took;
    found = real - before - took / 2;
  }
  return found;
}

/// @return ns since 1970 by a clock that nobody sets: CLOCK_MONOTONIC and what CLOCK_REALTIME was
/// ahead of it once.
inline std::uint64_t steady_ns(std::int64_t ahead_ns) noexcept {
  return static_cast<std::uint64_t>(clock_ns(CLOCK_MONOTONIC) + ahead_ns);
}

}  // namespace lanescope::watch
