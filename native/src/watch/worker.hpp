#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace lanescope::watch {

/// ns since 1970: the one time of everything that is watched. It is CLOCK_REALTIME as it was when
/// this process first asked, and goes on with CLOCK_MONOTONIC: nobody who sets the clock moves it.
std::uint64_t watch_time_ns() noexcept;

/// By how much that time is ahead of CLOCK_MONOTONIC, in ns.
std::int64_t watch_clock_ahead_ns() noexcept;

/// Times that a driver told just now, as that time. They may be by CLOCK_REALTIME of now or of a
/// moment ago, or by a clock that nobody sets: where CLOCK_REALTIME was set meanwhile, that reading
/// holds which is the latest that is not in the future.
class ToldTimes {
 public:
  /// As of now.
  ToldTimes() noexcept;
  /// For tests: by how much CLOCK_REALTIME was set ahead, and now.
  ToldTimes(std::int64_t stepped_ns, std::uint64_t now_ns) noexcept
      : stepped_ns_(stepped_ns), now_ns_(now_ns) {}

  std::uint64_t read(std::uint64_t told_ns) const noexcept;

 private:
  std::int64_t stepped_ns_;
  std::uint64_t now_ns_;
};

/// Seconds of CPU that the calling thread has used.
double thread_cpu_seconds() noexcept;

/// A thread that works until it is asked to stop, and can be woken from a pause for that.
class Worker {
 public:
  /// Waits until `deadline`; returns false at once when asked to stop.
  using Pause = std::function<bool(std::chrono::steady_clock::time_point deadline)>;

  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs `body`, which must not throw, in a thread that takes no signals: they are the program's.
  void start(std::function<void(const Pause&)> body);

  /// Asks the thread to stop and waits for it.
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace lanescope::watch
