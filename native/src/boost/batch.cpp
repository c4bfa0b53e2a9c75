#include "boost/batch.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "boost/ageing.hpp"
#include "boost/carry.hpp"
#include "boost/driver.hpp"
#include "boost/gathered.hpp"
#include "boost/settings.hpp"
#include "boost/staging.hpp"
#include "boost/stubs.hpp"
#include "boost/tally.hpp"
#include "boost/undisturbed.hpp"
#include "inject/same_errno.hpp"
#include "intercept/captures.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kMostContexts = 16;
/// Copies wait for more of them as long as a program goes on making some, and not for long in all.
constexpr std::int64_t kMostPauseNs = 50'000, kMostAgeNs = 500'000;

std::atomic<bool> forbidden{false};

/// @return a number that no other thread of the process has or had.
std::uint64_t this_thread() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

/// @return memory that a child by fork finds empty, also where no handler of fork's was called;
/// null where the kernel has none such.
const std::atomic<bool>* mark_of_process() noexcept {
  constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK of Linux 4.14
  void* page =
      mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || madvise(page, sizeof(bool), kWipeOnFork) != 0) return nullptr;
  return new (page) std::atomic<bool>{true};
}

/// As `is_own_process`, by no system call where that can be: this is looked at for each tiny copy.
bool is_same_process() noexcept {
  static const std::atomic<bool>* const mark = mark_of_process();
  return mark == nullptr ? is_own_process() : mark->load(std::memory_order_relaxed);
}

CUcontext current_handle() noexcept {
  CUcontext handle = nullptr;
  return driver().cuCtxGetCurrent(&handle) == CUDA_SUCCESS ? handle : nullptr;
}

/// As long as this lives a context is current.
class Current {
 public:
  explicit Current(CUcontext context) noexcept {
    is_pushed_ = current_handle() != context && driver().cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext context = nullptr;
    if (is_pushed_) driver().cuCtxPopCurrent(&context);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool is_pushed_ = false;
};

/// Where the bytes of a copy have to be.
struct Slot {
  char* memory = nullptr;  // nowhere: the driver is to make the copy
  Staging* staging = nullptr;
  std::size_t chunk = 0;
  std::uint64_t number = 0;  // of the batch
};

struct Run {
  std::uint64_t thread = 0;  // 0: there is none
  CUstream stream = nullptr;
  CUcontext handle = nullptr;
  // Since the second copy:
  bool is_known = false, is_noted = false, is_ready = false;
  Context context{};
  Allocation allocation{};  // where the last copy went
  Staging* staging = nullptr;
};

/// What is gathered, which who has the lock uses. Those who wait for it wait for calls of the
/// driver's in the same process, as they do for the driver's own locks.
class Batches {
 public:
  std::mutex mutex;

  /// End the run that is not this copy's, or have it go on.
  Slot slot_for(const Request& request) noexcept;

  /// Add a copy whose bytes are in their place.
  /// @return whether the batch is still there.
  bool add(const Request& request, const Slot& slot) noexcept;

  /// Issue what is old.
  /// @return whether there is something, or was since the last time.
  bool issue_aged() noexcept;

  void end_run() noexcept;

  /// @return an error of the current context that nobody has been given yet.
  CUresult take_failure() noexcept;

 private:
  void begin_run(const Request& request, CUcontext handle) noexcept;
  bool look_at(const Request& request) noexcept;
  bool is_like_others(const Request& request) noexcept;
  bool is_ready() noexcept;
  Staging* staging_of(const Context& context) noexcept;
  char* next_chunk() noexcept;
  void issue() noexcept;

  Run run_;
  Gathered batch_;
  char* chunk_ = nullptr;
  std::uint64_t number_ = 0;  // of the batch, which changes as one is issued or a run ends
  std::int64_t begun_ns_ = 0, last_ns_ = 0;  // its first copy, and the last one
  bool is_active_ = false;                   // something was gathered since the last look
  CUresult failure_ = CUDA_SUCCESS;
  CUcontext failed_ = nullptr;
  std::array<Staging, kMostContexts> stagings_;
};

Batches& batches() noexcept {
  static Batches one;
  return one;
}

void note(Batching what) noexcept {
  tally().batching.store(static_cast<std::uint64_t>(what), std::memory_order_relaxed);
}

/// The process ends: what is gathered is issued while the driver is there, and nothing later.
void close_down() noexcept {
  constexpr int kMostTries = 100;
  forbidden.store(true);
  if (!is_same_process()) return;
  const Undisturbed undisturbed;
  for (int i = 0; i < kMostTries; ++i) {
    if (batches().mutex.try_lock()) {
      batches().end_run();
      batches().mutex.unlock();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Have the thread that looks at what is old, and the end of the process noticed before the
/// driver's own, which was there first.
bool is_attended() noexcept {
  static const bool there = std::atexit(close_down) == 0 && start_ageing();
  return there;
}

void Batches::begin_run(const Request& request, CUcontext handle) noexcept {
  if (forbidden.load() || handle == nullptr || request.stream == CU_STREAM_PER_THREAD ||
      intercept::captures.load() > 0)
    return;
  run_ = Run{};
  run_.thread = this_thread();
  run_.stream = request.stream;
  run_.handle = handle;
  lanescope_boost_run.store(1);
}

Staging* Batches::staging_of(const Context& context) noexcept {
  Staging* unused = nullptr;
  for (Staging& one : stagings_) {
    if (one.is_of(context)) return &one;
    if (one.is_left_by(context) || (unused == nullptr && one.is_free())) unused = &one;
  }
  if (unused != nullptr && !unused->open(context)) note(Batching::failed);
  return unused;
}

/// Find out whether a run's copies can be gathered, by its second one.
bool Batches::look_at(const Request& request) noexcept {
  if (!has_batches()) {
    note(Batching::old_driver);
    return false;
  }
  const Undisturbed undisturbed;
  const std::optional<Context> context = current_context();
  if (!context || !settings().to_gpu || is_shared_by_mps(context->device)) return false;
  const Understood what = understood(request, *context);
  if (!what.copy || what.copy->direction != Direction::to_gpu) return false;
  const std::optional<Allocation> allocation = allocation_of(*context, request.to, request.bytes);
  if (!allocation) return false;
  if (!is_attended()) return false;
  if (!settings().dry) run_.staging = staging_of(*context);
  run_.context = *context;
  run_.allocation = *allocation;
  run_.is_known = true;
  return settings().dry || run_.staging != nullptr;
}

/// @return whether a copy is of pageable memory to the run's GPU.
bool Batches::is_like_others(const Request& request) noexcept {
  if (!run_.allocation.holds(request.to, request.bytes)) {
    const std::optional<Allocation> found = allocation_of(run_.context, request.to, request.bytes);
    if (!found) return false;
    run_.allocation = *found;
  }
  return is_pageable(request.from, request.bytes);
}

/// @return whether memory may be read now. Where GPUs write pageable memory, what the stream was
/// given before the run has to be over.
bool Batches::is_ready() noexcept {
  if (run_.is_ready) return true;
  if (!settings().dry && run_.staging->is_shared()) {
    const Undisturbed undisturbed;
    if (!run_.is_noted) {
      run_.is_noted = run_.staging->note_start(run_.stream);
      return false;
    }
    if (!run_.staging->has_started()) return false;
  }
  return run_.is_ready = true;
}

Slot Batches::slot_for(const Request& request) noexcept {
  const CUcontext handle = current_handle();
  if (run_.thread != this_thread() || run_.stream != request.stream || run_.handle != handle ||
      forbidden.load()) {
    end_run();
    begin_run(request, handle);
    return {};
  }
  if (!(run_.is_known ? is_like_others(request) : look_at(request))) {
    end_run();
    return {};
  }
  if (!is_ready()) return {};
  if (!batch_.takes(request.to, request.bytes)) issue();
  if (batch_.copies() == 0) chunk_ = next_chunk();
  if (chunk_ == nullptr) return {};
  char* const memory = chunk_ + batch_.place_of(request.to);
  if (settings().dry) return {memory, nullptr, 0, number_};
  return {memory, run_.staging, run_.staging->hold(), number_};
}

/// @return where the next batch's bytes go; null where the driver is to make its copies.
char* Batches::next_chunk() noexcept {
  static char nowhere[Gathered::kMostBytes];
  if (settings().dry) return nowhere;
  if (failure_ != CUDA_SUCCESS) return nullptr;
  const Undisturbed undisturbed;
  if (!run_.staging->is_usable()) note(Batching::failed);
  return run_.staging->is_usable() ? run_.staging->next_chunk() : nullptr;
}

bool Batches::add(const Request& request, const Slot& slot) noexcept {
  if (slot.staging != nullptr) slot.staging->release(slot.chunk);
  if (slot.number != number_) return false;  // issued by another thread, which goes on
  last_ns_ = watch::clock_ns(CLOCK_MONOTONIC);
  if (batch_.copies() == 0) {
    begun_ns_ = last_ns_;
    wake_ageing();
  }
  batch_.add(request.to, request.bytes, chunk_);
  is_active_ = true;
  tally().gathered.add(request.bytes, 0);
  return true;
}

void Batches::issue() noexcept {
  ++number_;
  if (batch_.copies() == 0) return;
  note(Batching::used);
  tally().batches.fetch_add(1, std::memory_order_relaxed);
  if (!settings().dry) {
    const Undisturbed undisturbed;
    const Current current(run_.handle);
    const CUresult result = run_.staging->issue(batch_, run_.stream);
    if (result != CUDA_SUCCESS && failure_ == CUDA_SUCCESS) {
      failure_ = result;
      failed_ = run_.handle;
    }
  }
  batch_.clear();
}

void Batches::end_run() noexcept {
  issue();
  run_ = Run{};
  lanescope_boost_run.store(failure_ != CUDA_SUCCESS ? 1 : 0);
}

bool Batches::issue_aged() noexcept {
  const std::int64_t now = watch::clock_ns(CLOCK_MONOTONIC);
  const bool is_old =
      batch_.copies() > 0 && (now - last_ns_ >= kMostPauseNs || now - begun_ns_ >= kMostAgeNs);
  if (is_old) issue();
  return std::exchange(is_active_, false) || is_old || batch_.copies() > 0;
}

CUresult Batches::take_failure() noexcept {
  if (failure_ == CUDA_SUCCESS || current_handle() != failed_) return CUDA_SUCCESS;
  const CUresult failed = std::exchange(failure_, CUDA_SUCCESS);
  if (run_.thread == 0) lanescope_boost_run.store(0);
  return failed;
}

/// @return as `gather_or_settle`.
std::optional<CUresult> gather(const Request& request) noexcept {
  Batches& all = batches();
  Slot slot;
  {
    const Uncancelled uncancelled;
    const std::lock_guard lock(all.mutex);
    slot = all.slot_for(request);
    if (const CUresult failed = all.take_failure(); failed != CUDA_SUCCESS) return failed;
    if (settings().dry && slot.memory != nullptr) all.add(request, slot);
  }
  if (settings().dry || slot.memory == nullptr) return {};
  // Not locked: memory that cannot be read is the program's own error, in its own thread.
  std::memcpy(slot.memory, reinterpret_cast<const void*>(request.from), request.bytes);
  const Uncancelled uncancelled;
  const std::lock_guard lock(all.mutex);
  if (!all.add(request, slot)) return {};
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<CUresult> gather_or_settle(const Request& request) noexcept {
  const inject::SameErrno guard;
  if (!driver().complete) {
    note(Batching::old_driver);
    return {};
  }
  const bool is_small = request.asynchronous && request.bytes > 0 &&
                        request.bytes <= kMostGathered && request.bytes < settings().from;
  if (is_small && request.direction != Direction::from_gpu && is_same_process())
    return gather(request);
  const CUresult failed = settle();
  if (failed != CUDA_SUCCESS) return failed;
  return {};
}

CUresult settle() noexcept {
  if (lanescope_boost_run.load() == 0 || !is_same_process()) return CUDA_SUCCESS;
  const Uncancelled uncancelled;
  const std::lock_guard lock(batches().mutex);
  batches().end_run();
  return batches().take_failure();
}

void forbid_batches() noexcept {
  forbidden.store(true);
  note(Batching::failed);
}

std::optional<bool> issue_aged() noexcept {
  const std::lock_guard lock(batches().mutex);
  if (forbidden.load() && lanescope_boost_run.load() == 0) return {};
  return batches().issue_aged();
}

}  // namespace lanescope::boost
