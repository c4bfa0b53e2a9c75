#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace lanescope::watch {

/// CLOCK_REALTIME in ns since 1970: the one time of everything that is watched.
std::uint64_t realtime_ns() noexcept;

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
