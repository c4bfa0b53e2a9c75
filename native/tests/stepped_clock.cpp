// A clock that is set while programs run, to be preloaded into them: CLOCK_REALTIME is ahead by the
// nanoseconds that the file STEPPED_CLOCK names, from the moment on when it is there.
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* now) {
  using Real = int (*)(clockid_t, timespec*);
  static const Real real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  const char* path = std::getenv("STEPPED_CLOCK");
  if (clock != CLOCK_REALTIME || result != 0 || path == nullptr) return result;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return result;
  char text[32] = "";
  const long long ahead = read(file, text, sizeof text - 1) > 0 ? std::atoll(text) : 0;
  close(file);
  const long long sum = now->tv_sec * 1'000'000'000LL + now->tv_nsec + ahead;
  now->tv_sec = sum / 1'000'000'000;
  now->tv_nsec = sum % 1'000'000'000;
  return result;
}
