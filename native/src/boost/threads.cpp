#include "boost/threads.hpp"

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <initializer_list>

namespace lanescope::boost {

namespace {

constexpr std::size_t kStackBytes = 256 << 10;  // a handler of the program's may run on it

/// Signals are the program's threads' own, but for those that a thread causes itself.
void block_signals() noexcept {
  sigset_t all;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

int start_threads(int count, const cpu_set_t& cpus, void* (*run)(void*), void* state) noexcept {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (CPU_COUNT(&cpus) > 0) pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
  // Threads begin with the signals of who makes them: none may come to them before they block it.
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  block_signals();
  int started = 0;
  for (; started < count; ++started) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, run, state) != 0) break;
    pthread_setname_np(thread, "lanescope-boost");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace lanescope::boost
