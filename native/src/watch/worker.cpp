#include "watch/worker.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "watch/watch_clock.hpp"

namespace lanescope::watch {

namespace {

constexpr std::int64_t kInexactNs = 1'000'000;

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

std::int64_t watch_clock_ahead_ns() noexcept {
  static const std::int64_t ahead_ns = realtime_ahead_ns();
  return ahead_ns;
}

std::uint64_t watch_time_ns() noexcept {
  return steady_ns(watch_clock_ahead_ns());
}

ToldTimes::ToldTimes() noexcept
    : stepped_ns_(realtime_ahead_ns() - watch_clock_ahead_ns()), now_ns_(watch_time_ns()) {}

std::uint64_t ToldTimes::read(std::uint64_t told_ns) const noexcept {
  // Both clocks are slewed alike: less is only how exactly they can be compared.
  if (std::abs(stepped_ns_) < kInexactNs) return told_ns;
  const std::uint64_t moved = told_ns - static_cast<std::uint64_t>(stepped_ns_);
  const std::uint64_t latest = now_ns_ + kInexactNs;
  const auto [less, more] = std::minmax(told_ns, moved);
  return more <= latest ? more : less;
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
