// A program's side of NVTX for tests: loads the library that NVTX_INJECTION64_PATH names and calls
// its handlers, as the headers of version 3 do it. What no handler was given for does nothing.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#define API extern "C" __attribute__((visibility("default")))

namespace {

using Function = void (*)();
Function core[16], core2[16];
Function* core_table[16];
Function* core2_table[16];

struct Callbacks {
  std::size_t size;
  int (*table)(int module, Function*** table, unsigned* size);
};

int table_of(int module, Function*** table, unsigned* size) {
  if (module != 1 && module != 5) return 0;
  for (int place = 1; place < 16; ++place) {
    core_table[place] = &core[place];
    core2_table[place] = &core2[place];
  }
  *table = module == 1 ? core_table : core2_table;
  *size = 16;
  return 1;
}

const Callbacks callbacks{sizeof(Callbacks), table_of};

const void* exported(std::uint32_t identity) {
  return identity == 1 ? &callbacks : nullptr;
}

struct Attributes {
  std::uint16_t version, size;
  std::uint32_t unused[5];
  std::uint64_t payload;
  std::int32_t kind;
  const void* message;
};

Attributes attributes_of(int kind, const void* message) {
  return {3, sizeof(Attributes), {}, 0, kind, message};
}

template <class Result, class... Arguments>
Result call(Function function, Result without, Arguments... arguments) {
  if (function == nullptr) return without;
  return reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...);
}

pthread_mutex_t held_over_fork = PTHREAD_MUTEX_INITIALIZER;

void push_and_pop(const char* name) {
  call(core[9], -2, name);
  call(core[11], -2);
}

}  // namespace

API int nvtx_begin() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_LAZY);
  if (library == nullptr) return -1;
  using Begin = int (*)(const void* (*)(std::uint32_t));
  return reinterpret_cast<Begin>(dlsym(library, "InitializeInjectionNvtx2"))(exported);
}
API int nvtx_push(const char* name) {
  return call(core[9], -2, name);
}
API int nvtx_push_wide(const wchar_t* name) {
  return call(core[10], -2, name);
}
API int nvtx_pop() {
  return call(core[11], -2);
}
API std::uint64_t nvtx_start(const char* name) {
  return call(core[5], std::uint64_t{0}, name);
}
API void nvtx_end(std::uint64_t id) {
  if (core[7] != nullptr) reinterpret_cast<void (*)(std::uint64_t)>(core[7])(id);
}
API const void* nvtx_domain(const char* name) {
  return call<const void*>(core2[12], nullptr, name);
}
API const void* nvtx_string(const void* domain, const char* text) {
  return call<const void*>(core2[10], nullptr, domain, text);
}
/// `kind`: 1 letters, 3 what nvtx_string returned.
API int nvtx_push_in(const void* domain, int kind, const void* message) {
  const Attributes attributes = attributes_of(kind, message);
  return call<int, const void*, const Attributes*>(core2[4], -2, domain, &attributes);
}
API int nvtx_pop_in(const void* domain) {
  return call(core2[5], -2, domain);
}
/// So many ranges, one after the other.
API void nvtx_many(const char* name, int count) {
  for (int i = 0; i < count; ++i) push_and_pop(name);
}
/// From now on fork() waits for a lock of the program's.
API void nvtx_lock_at_fork() {
  pthread_atfork([] { pthread_mutex_lock(&held_over_fork); },
                 [] { pthread_mutex_unlock(&held_over_fork); },
                 [] { pthread_mutex_unlock(&held_over_fork); });
}
/// The same as nvtx_many, with that lock.
API void nvtx_many_locked(const char* name, int count) {
  for (int i = 0; i < count; ++i) {
    pthread_mutex_lock(&held_over_fork);
    push_and_pop(name);
    pthread_mutex_unlock(&held_over_fork);
  }
}
/// The same as nvtx_many, while a signal's handler does it, too, again and again.
API void nvtx_many_interrupted(const char* name, int count) {
  struct sigaction action{};
  action.sa_handler = [](int) { push_and_pop("signal"); };
  sigaction(SIGALRM, &action, nullptr);
  itimerval every{{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &every, nullptr);
  nvtx_many(name, count);
  every = {};
  setitimer(ITIMER_REAL, &every, nullptr);
}
