#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "error.hpp"

namespace lanescope {

/// The clock of everything that is timed on the host.
using HostClock = std::chrono::steady_clock;

/// Seconds since `begin`.
inline double seconds_since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

/// Seconds since the first call in this process: small, so that a double keeps nanoseconds
/// however long the machine has been up.
inline double host_seconds() {
  static const auto first = HostClock::now();
  return seconds_since(first);
}

/// Seconds that one reading of the clock takes, the median of many: each time that is
/// taken between two readings is too long by about this much.
double host_clock_cost();

/// After so long a GPU that does not answer is given up.
inline constexpr double kHangTimeoutS = 60;

/// Throws `Error` with the name of CUDA's time-out: the GPU has not answered.
[[noreturn]] void throw_no_answer(double timeout_s);

/// Spins until `word`, which a GPU writes, holds `value`. Throws `Error` after `timeout_s`.
///
/// Without a pause between two looks: that would be part of what is measured.
template <typename Word>
void spin_until(Word& word, Word value, double timeout_s) {
  constexpr unsigned kLooksPerClock = 4096;
  const std::atomic_ref<Word> seen(word);
  const auto begin = HostClock::now();
  for (unsigned looks = 1; seen.load(std::memory_order_acquire) != value; ++looks)
    if (looks % kLooksPerClock == 0 && seconds_since(begin) > timeout_s) throw_no_answer(timeout_s);
}

}  // namespace lanescope
