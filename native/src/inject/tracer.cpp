#include "inject/tracer.hpp"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <utility>

#include "inject/entry.hpp"
#include "inject/header.hpp"
#include "inject/in_callback.hpp"
#include "inject/range_log.hpp"
#include "inject/spool_format.hpp"

namespace lanescope::inject {

namespace {

// A program must not wait for long for a flush that hangs in the driver.
constexpr std::chrono::milliseconds kForkPatience{50};
constexpr std::chrono::seconds kExitPatience{2};

thread_local bool held_for_fork = false;  // several threads may fork at once

}  // namespace

void Tracer::begin() {
  const std::uint64_t start_ns = now_ns();
  const std::string missing = settings_.need_cupti() ? cupti_.load(settings_.library) : "";
  const std::string library = missing.empty() ? cupti_.path : "";
  if (!spool_.open(settings_.folder, header_line(start_ns, library, cupti_.version)))
    return range_log().stop();
  if (!missing.empty()) {
    spool_.note(missing);
    range_log().stop();
    return spool_.end(kCutShort);
  }
  if (!settings_.unknown.empty()) spool_.note("'" + settings_.unknown + "' cannot be traced");
  gpus_.find_driver();
  std::unique_lock using_activation(flushing_);    // NVTX may begin in another thread
  active_.store(true, std::memory_order_release);  // buffers may be asked for at once
  const bool begun = !settings_.need_cupti() || activation_.begin(callbacks());
  tell_notes();
  if (!begun) {
    active_.store(false, std::memory_order_release);
    range_log().stop();
    return spool_.end(kCutShort);
  }
  if (settings_.need_cupti()) begin_rest();
  const bool pending = rest_pending_;
  using_activation.unlock();
  if (settings_.flush_every.count() > 0)
    start_flusher();
  else if (pending)
    spool_.note("calls or migrations are not traced: that needs regular flushes");
}

std::uint8_t* Tracer::lend() noexcept {
  const InCallback mark;
  return is_active() ? pool_.take() : nullptr;
}

void Tracer::take_in(std::uint8_t* buffer, std::size_t used) noexcept {
  if (!is_active()) return;
  const InCallback mark;
  std::size_t dropped = 0;
  if (cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
  spool_.add(buffer, used, dropped);
  pool_.give_back(buffer, used);
}

void Tracer::finish() noexcept {
  if (!filtered_.load()) return end();
  // Any system call but the program's own may kill this thread: the flusher ends the spool.
  asked_to_end_.store(true);
  const auto patience = std::chrono::steady_clock::now() + kExitPatience;
  while (!ended_.load() && std::chrono::steady_clock::now() < patience) continue;
}

void Tracer::end() noexcept {
  // Before any lock: in a child of fork, and in a callback, one may be held for ever.
  if (!is_active() || InCallback::is_marked()) return;
  {
    const std::lock_guard lock(stop_mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  stop_changed_.notify_all();
  if (flushing_.try_lock_for(kExitPatience)) {
    gpus_.find_driver();  // where it came after the beginning
    tell_gpus();
    const bool alone = flush_all();
    flushing_.unlock();
    write_waiting();
    spool_.end(alone ? 0 : kCutShort);
  } else {
    spool_.note("CUPTI did not answer when the program ended; its last records are missing");
  }
}

void Tracer::tell_gpus() noexcept {
  if (gpus_told_) return;
  try {
    const std::vector<std::string> gpus = gpus_.addresses();
    gpus_told_ = !gpus.empty();
    if (gpus_told_) spool_.add_gpus(gpus);
  } catch (...) {  // no memory
  }
}

bool Tracer::flush_all() noexcept {
  bool alone = true;
  // CUPTI brings back what it has borrowed: to us, or to whoever registered callbacks after us,
  // and may not expect it any more.
  try {
    alone = !settings_.need_cupti() || activation_.is_alone(callbacks().called);
    if (settings_.need_cupti() && alone)
      cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    tell_notes();
  } catch (...) {  // no memory
  }
  return alone;
}

void Tracer::start_flusher() {
  // The program's signals are handled by the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const auto run = [](void* tracer) -> void* {
    static_cast<Tracer*>(tracer)->flush_until_stopped();
    return nullptr;
  };
  const int error = pthread_create(&thread, nullptr, run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    return spool_.note("no thread could be started; a program that is killed loses its records");
  pthread_setname_np(thread, "lanescope");
  pthread_detach(thread);
}

void Tracer::flush_until_stopped() noexcept {
  std::unique_lock lock(stop_mutex_);
  while (!stop_changed_.wait_for(lock, settings_.flush_every, [this] { return stopped_; })) {
    lock.unlock();
    flush(0);
    if (spool_.is_over()) return retire();
    const MainThread first = main_thread();
    const bool alone = first.ended && first.threads == 2;
    filtered_.store(first.filters > filters_);
    if (alone || asked_to_end_.load()) {
      end();
      ended_.store(true);
      return alone ? end_as_main_thread() : void();
    }
    lock.lock();
  }
}

void Tracer::retire() noexcept {
  const std::lock_guard lock(flushing_);
  active_.store(false, std::memory_order_release);
  filtered_.store(false);
  range_log().stop();
  try {
    if (settings_.need_cupti()) activation_.end(callbacks());
  } catch (...) {  // no memory
  }
}

void Tracer::flush(std::uint32_t flag) noexcept {
  const std::lock_guard lock(flushing_);
  tell_gpus();
  if (settings_.need_cupti()) {
    if (rest_pending_ || ranges_in_use()) begin_rest();
    cupti_.cuptiActivityFlushAll(flag);
  }
  write_waiting();
}

void Tracer::write_ranges() noexcept {
  if (!is_active()) return;
  const InCallback mark;
  const std::lock_guard lock(writing_ranges_);
  std::uint64_t lost = 0;
  const std::vector<Edge> edges = range_log().take(lost);
  spool_.add(edges, lost);
}

void Tracer::write_host_copies() noexcept {
  if (!is_active()) return;
  const InCallback mark;
  std::uint64_t lost = 0;
  const std::vector<HostCopy> copies = host_copies_.take(lost);
  spool_.add(copies, lost);
}

void Tracer::write_waiting() noexcept {
  write_ranges();
  write_host_copies();
}

void Tracer::take_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                       const CUpti_CallbackData& data) noexcept {
  if (!is_active() || data.callbackSite != CUPTI_API_EXIT) return;
  // What failed may have been passed anything.
  if (data.functionReturnValue == nullptr || *static_cast<int*>(data.functionReturnValue) != 0)
    return;
  const InCallback mark;
  bool many = false;
  if (auto wait = wait_call(domain, id, data.functionParams)) {
    wait->queue.context = data.contextUid;
    many = host_copies_.waited(*wait);
  } else if (auto call = copy_call(domain, id, data.functionParams)) {
    call->queue.context = data.contextUid;
    many = host_copies_.add(*call, data.correlationId);
  }
  if (many) write_host_copies();
}

void Tracer::ranges_begun() noexcept {
  // Kernels have threads only if their launches are traced, which is worth it with ranges only.
  // Where a flush goes on for long, the next one does it.
  if (!settings_.need_cupti() || !is_active() || !flushing_.try_lock_for(kForkPatience)) return;
  begin_rest();
  flushing_.unlock();
}

void Tracer::begin_rest() noexcept {
  try {
    if (ranges_in_use()) activation_.want_launches();
    rest_pending_ = !activation_.begin_rest();
    tell_notes();
  } catch (...) {  // no memory; it is not tried again
    rest_pending_ = false;
  }
}

void Tracer::tell_notes() noexcept {
  for (const std::string& note : activation_.take_notes()) spool_.note(note);
}

void Tracer::before_fork() noexcept {
  if (is_active()) held_for_fork = flushing_.try_lock_for(kForkPatience);
}

void Tracer::after_fork() noexcept {
  if (held_for_fork) flushing_.unlock();
  held_for_fork = false;
}

void Tracer::in_child() noexcept {
  filtered_.store(false);  // there is no flusher to wait for
  active_.store(false, std::memory_order_release);
  range_log().stop();
}

}  // namespace lanescope::inject
