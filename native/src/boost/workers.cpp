#include "boost/workers.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "boost/move_bytes.hpp"
#include "boost/pages.hpp"
#include "boost/spinning.hpp"
#include "boost/threads.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kMostJobs = 32;
constexpr std::uint64_t kMostWoken = 1024;
/// @return whether a piece could be moved.
bool move_piece(const Job& job, std::uint64_t piece) noexcept {
  char* const memory = job.memory + job.begin_of(piece);
  char* const slot = job.slot_of(piece);
  const std::size_t bytes = job.bytes_of(piece);
  if (job.into_ring) {
    if (!job.is_ready && !make_readable(memory, bytes)) return false;
    (job.past_caches ? move_past_caches : move_through_caches)(slot, memory, bytes);
  } else {
    if (!job.is_ready && !make_writable(memory, bytes)) return false;
    move_through_caches(memory, slot, bytes);
  }
  return true;
}

}  // namespace

bool Job::move_next() noexcept {
  std::uint64_t piece = next.load(std::memory_order_relaxed);
  do
    if (piece >= allowed.load(std::memory_order_acquire) || failed.load()) return false;
  while (!next.compare_exchange_weak(piece, piece + 1));
  if (move_piece(*this, piece))
    set_done(piece);
  else
    failed.store(true);
  return true;
}

struct Workers::State {
  /// A job has a place as long as it is there. Who looks at it is counted before.
  struct alignas(64) Place {
    std::atomic<bool> taken{false};
    std::atomic<Job*> job{nullptr};
    std::atomic<int> users{0};
  };

  std::array<Place, kMostJobs> places;
  alignas(64) std::atomic<std::uint32_t> changes{0};  ///< Of what is allowed.
  std::atomic<int> jobs{0}, asleep{0};

  /// @return whether there was a piece to move.
  bool move_any() noexcept {
    for (Place& place : places) {
      if (place.job.load(std::memory_order_relaxed) == nullptr) continue;
      place.users.fetch_add(1);
      Job* job = place.job.load();
      const bool moved = job != nullptr && job->move_next();
      place.users.fetch_sub(1);
      if (moved) return true;
    }
    return false;
  }

  void work_for_ever() noexcept {
    for (;;) {
      const std::uint32_t before = changes.load();
      if (!move_any()) wait_for_change(before);
    }
  }

  /// Wait a while for more to move, then sleep.
  void wait_for_change(std::uint32_t before) noexcept {
    for (Spinning spinning; spinning.goes_on(jobs.load() > 0);)
      if (changes.load() != before) return;
    asleep.fetch_add(1);
    futex(FUTEX_WAIT_PRIVATE, before);  // which looks at `changes` once more
    asleep.fetch_sub(1);
  }

  void wake(std::uint64_t most) noexcept {
    if (asleep.load() <= 0) return;
    futex(FUTEX_WAKE_PRIVATE, static_cast<std::uint32_t>(std::min(most, kMostWoken)));
  }

  /// A condition variable would have who wakes wait for its lock, one behind the other.
  void futex(int operation, std::uint32_t value) noexcept {
    syscall(SYS_futex, &changes, operation, value, nullptr, nullptr, 0);
  }
};

void* Workers::run(void* state) noexcept {
  static_cast<State*>(state)->work_for_ever();
  return nullptr;
}

Workers* Workers::start(int count, const cpu_set_t& cpus) noexcept {
  auto* made = new (std::nothrow) Workers;
  if (made == nullptr) return nullptr;
  made->state_ = new (std::nothrow) State;
  if (made->state_ == nullptr) return nullptr;
  made->count_ = start_threads(count, cpus, run, made->state_);
  return made->count_ == 0 ? nullptr : made;
}

bool Workers::add(Job& job) noexcept {
  for (std::size_t i = 0; i < kMostJobs; ++i) {
    State::Place& place = state_->places[i];
    if (place.taken.exchange(true)) continue;
    job.place = i;
    state_->jobs.fetch_add(1);
    place.job.store(&job);
    return true;
  }
  return false;
}

void Workers::allow(Job& job, std::uint64_t pieces) noexcept {
  const std::uint64_t before = job.allowed.load(std::memory_order_relaxed);
  if (pieces <= before) return;
  job.allowed.store(pieces, std::memory_order_release);
  state_->changes.fetch_add(1);
  state_->wake(pieces - before);
}

void Workers::remove(Job& job) noexcept {
  State::Place& place = state_->places[job.place];
  place.job.store(nullptr);
  for (Patience patience; place.users.load() > 0;) patience.wait();
  state_->jobs.fetch_sub(1);
  place.taken.store(false);
}

}  // namespace lanescope::boost
