#include "boost/workers.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>

#include "boost/pages.hpp"
#include "boost/spinning.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kMostJobs = 32;
constexpr std::size_t kStackBytes = 256 << 10;  // a handler of the program's may run on it
/// memcpy writes past the caches what is longer than it thinks good, and the ring shall be in them.
constexpr std::size_t kThroughCaches = 64 << 10;

void move_bytes(char* to, const char* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kThroughCaches)
    std::memcpy(to + at, from + at, std::min(kThroughCaches, bytes - at));
}

/// @return whether a piece could be moved.
bool move_piece(const Job& job, std::uint64_t piece) noexcept {
  char* const memory = job.memory + piece * job.piece_bytes;
  char* const slot = job.slot_of(piece);
  const std::size_t bytes = job.bytes_of(piece);
  if (job.into_ring) {
    if (!make_readable(memory, bytes)) return false;
    move_bytes(slot, memory, bytes);
  } else {
    if (!make_writable(memory, bytes)) return false;
    move_bytes(memory, slot, bytes);
  }
  return true;
}

/// Signals are the program's threads' own, but for those that a thread causes itself.
void block_signals() noexcept {
  sigset_t all;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

struct Workers::State {
  std::mutex mutex;
  std::condition_variable work;
  std::array<Job*, kMostJobs> jobs{};
  int asleep = 0;
  std::atomic<std::uint32_t> changes{0};  ///< Of what is allowed.

  /// @return a job with a piece to move, which is counted as at work; null if there is none.
  Job* take() noexcept {
    for (Job* job : jobs)
      if (job != nullptr && job->next < job->allowed && !job->failed.load()) {
        ++job->at_work;
        return job;
      }
    return nullptr;
  }

  void work_for_ever() noexcept {
    std::unique_lock lock(mutex);
    for (;;) {
      if (Job* job = take()) {
        const std::uint64_t piece = job->next++;
        lock.unlock();
        if (move_piece(*job, piece))
          job->set_done(piece);
        else
          job->failed.store(true);
        lock.lock();
        --job->at_work;
        continue;
      }
      wait(lock);
    }
  }

  /// Wait a moment for more of the same copy, then sleep.
  void wait(std::unique_lock<std::mutex>& lock) noexcept {
    const std::uint32_t before = changes.load();
    lock.unlock();
    bool changed = false;
    for (Spinning spinning; !changed && spinning.goes_on();) changed = changes.load() != before;
    lock.lock();
    if (changes.load() != before) return;
    ++asleep;
    work.wait(lock);
    --asleep;
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
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (CPU_COUNT(&cpus) > 0) pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
  // Threads begin with the signals of who makes them: none may come to them before they block it.
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  block_signals();
  for (; made->count_ < count; ++made->count_) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, run, made->state_) != 0) break;
    pthread_setname_np(thread, "lanescope-boost");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made->count_ == 0 ? nullptr : made;
}

bool Workers::add(Job& job) noexcept {
  const std::lock_guard lock(state_->mutex);
  const auto free = std::find(state_->jobs.begin(), state_->jobs.end(), nullptr);
  if (free == state_->jobs.end()) return false;
  *free = &job;
  return true;
}

void Workers::allow(Job& job, std::uint64_t pieces) noexcept {
  bool asleep = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (pieces <= job.allowed) return;
    job.allowed = pieces;
    state_->changes.fetch_add(1);
    asleep = state_->asleep > 0;
  }
  if (asleep) state_->work.notify_all();
}

void Workers::remove(Job& job) noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    std::replace(state_->jobs.begin(), state_->jobs.end(), &job, static_cast<Job*>(nullptr));
  }
  for (Patience patience;; patience.wait()) {
    const std::lock_guard lock(state_->mutex);
    if (job.at_work == 0) return;
  }
}

}  // namespace lanescope::boost
