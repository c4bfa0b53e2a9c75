#pragma once

namespace lanescope::inject {

/// What becomes of the process's first thread, as its kernel tells; nothing where it does not.
struct MainThread {
  bool ended = false;  ///< by pthread_exit, or by a system call, as under strict seccomp
  int filters = 0;     ///< of seccomp; it may be killed for calls that the program does not make
  int threads = 0;     ///< of the process, itself included, even when it has ended
};

MainThread main_thread() noexcept;

/// Ends this thread, the last beside a first one that has ended, so that the process ends as that
/// did. Returns where a return does that: the C library exits then.
void end_as_main_thread() noexcept;

}  // namespace lanescope::inject
