#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "inject/activation.hpp"
#include "inject/buffer_pool.hpp"
#include "inject/cupti_library.hpp"
#include "inject/host_copies.hpp"
#include "inject/main_thread.hpp"
#include "inject/settings.hpp"
#include "inject/spool.hpp"
#include "inject/visible_gpus.hpp"

namespace lanescope::inject {

/// Traces this process, from cuInit to its end. There is one, and it is never destroyed: threads
/// of CUPTI may call it until the process is gone.
class Tracer {
 public:
  explicit Tracer(Settings settings) : settings_(std::move(settings)) {}

  /// Open the spool, load CUPTI and begin. What fails is told in the spool.
  void begin();

  /// CUPTI wants a buffer: the pool's, or none.
  std::uint8_t* lend() noexcept;
  /// CUPTI brings a buffer back with `used` bytes of records.
  void take_in(std::uint8_t* buffer, std::size_t used) noexcept;

  /// Write what is still held, and the end. The second call does nothing.
  void finish() noexcept;

  /// Write what waits in the log of ranges.
  void write_ranges() noexcept;
  /// CUPTI tells of the beginning or the end of a call.
  void take_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                 const CUpti_CallbackData& data) noexcept;
  /// The program has begun to use NVTX.
  void ranges_begun() noexcept;

  /// Around fork(): no flush goes on while memory is copied, and the child traces nothing. It
  /// has the parent's descriptor and locks, and none of its threads, so it touches nothing.
  void before_fork() noexcept;
  void after_fork() noexcept;
  void in_child() noexcept;

  /// Whether this process is traced. A child that was made beside the handlers of fork() (by clone,
  /// by the system call, by _Fork) is not: it would write into its parent's spool.
  bool is_active() const noexcept {
    return active_.load(std::memory_order_acquire) && syscall(SYS_getpid) == process_;
  }

 private:
  void begin_rest() noexcept;
  void end() noexcept;
  bool flush_all() noexcept;  ///< False where CUPTI is another profiler's.
  void start_flusher();
  void flush_until_stopped() noexcept;
  /// Nobody reads any more: the program is not held up any longer.
  void retire() noexcept;
  void flush(std::uint32_t flag) noexcept;
  void tell_notes() noexcept;
  void tell_gpus() noexcept;
  void write_host_copies() noexcept;
  void write_waiting() noexcept;

  const Settings settings_;
  Cupti cupti_;
  Spool spool_{cupti_};
  BufferPool pool_;
  HostCopies host_copies_{settings_};
  Activation activation_{cupti_, settings_};
  VisibleGpus gpus_;
  const long process_ = syscall(SYS_getpid);  // getpid() of some C libraries remembers the parent's
  std::atomic<bool> active_{false};
  const int filters_ = main_thread().filters;  // those of a container
  std::atomic<bool> filtered_{false};          // the main thread's system calls are, by more
  std::atomic<bool> asked_to_end_{false};
  std::atomic<bool> ended_{false};
  bool gpus_told_ = false;     // of whoever holds flushing_
  bool rest_pending_ = false;  // of whoever holds flushing_
  std::timed_mutex flushing_;  // also: activation_ is in use
  std::mutex writing_ranges_;  // batches are written in the order they were taken in
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopped_ = false;
};

}  // namespace lanescope::inject
