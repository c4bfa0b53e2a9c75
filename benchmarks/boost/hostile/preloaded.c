// What a program puts into its own LD_PRELOAD: functions that count and go on to the next one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

static int counts[4];
int wrap_count(int which) {
  return counts[which];
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t n) {
  static int (*next)(unsigned long long, const void*, size_t);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "cuMemcpyHtoD_v2");
  counts[0]++;
  return next ? next(to, from, n) : 999;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t n) {
  static int (*next)(void*, unsigned long long, size_t);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "cuMemcpyDtoH_v2");
  counts[1]++;
  return next ? next(to, from, n) : 999;
}
pid_t getppid(void) {
  static pid_t (*next)(void);
  if (!next) *(void**)&next = (void*)dlsym(RTLD_NEXT, "getppid");
  counts[2]++;
  void* bare = dlsym(RTLD_NEXT, "wrap_count");  // none behind this library has one
  counts[3] = bare == NULL;
  return next();
}
