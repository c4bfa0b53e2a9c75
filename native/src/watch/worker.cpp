#include "lanescope/watch/worker.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <utility>

namespace lanescope::watch {

namespace {

timespec now_of(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return now;
}

/// Blocks all signals in the calling thread, whose new threads take over what is blocked.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::uint64_t realtime_ns() noexcept {
  const timespec now = now_of(CLOCK_REALTIME);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double thread_cpu_seconds() noexcept {
  const timespec now = now_of(CLOCK_THREAD_CPUTIME_ID);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Worker::start(std::function<void(const Pause&)> body) {
  const BlockedSignals blocked;
  thread_ = std::jthread([this, body = std::move(body)](const std::stop_token& token) {
    body([&](std::chrono::steady_clock::time_point deadline) {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, token, deadline, [] { return false; });
      return !token.stop_requested();
    });
  });
}

void Worker::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace lanescope::watch
