#include "boost/ageing.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "boost/batch.hpp"
#include "boost/settings.hpp"
#include "boost/threads.hpp"

namespace lanescope::boost {

namespace {

constexpr timespec kBetween{0, 25'000};
constexpr int kMostIdle = 40;  // looks, then the thread sleeps: who wakes it pays some µs

std::atomic<std::uint32_t> changes{0};
std::atomic<bool> asleep{false};

void futex(int operation, std::uint32_t value) noexcept {
  syscall(SYS_futex, &changes, operation, value, nullptr, nullptr, 0);
}

void* look_for_ever(void*) noexcept {
  prctl(PR_SET_TIMERSLACK, 1);  // else each wait takes 50 µs more
  for (int idle = 0;;) {
    const std::uint32_t before = changes.load();
    const std::optional<bool> found = issue_aged();
    if (!found) return nullptr;
    idle = *found ? 0 : idle + 1;
    if (idle < kMostIdle) {
      nanosleep(&kBetween, nullptr);
      continue;
    }
    asleep.store(true);
    futex(FUTEX_WAIT_PRIVATE, before);  // which looks at `changes` once more
    asleep.store(false);
    idle = 0;
  }
}

}  // namespace

bool start_ageing() noexcept {
  static const bool started = start_threads(1, settings().cpus, look_for_ever, nullptr) == 1;
  return started;
}

void wake_ageing() noexcept {
  changes.fetch_add(1);
  if (asleep.load()) futex(FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace lanescope::boost
