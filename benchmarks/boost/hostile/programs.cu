// Programs in CUDA C++ that a layer which carries copies could get wrong; run.py builds and runs
// them, and those of programs.py.
//
//     nvcc -O2 -std=c++17 -arch=native -o hostile benchmarks/boost/hostile/programs.cu -lcuda -ldl
//     hostile list
//     hostile NAME
//
// What is printed must be the same in each run: no times, no addresses, no process ids. A program
// ends with 0, or with 1 where something was WRONG, and some with a code of their own. Some change
// when built with --default-stream per-thread. The one named wrapped needs libpreloaded.so
// (preloaded.c) in the folder of the program.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;
typedef unsigned char byte;
typedef unsigned long long u64;
static const size_t KiB = 1024, MiB = 1024 * 1024;

// ---------------------------------------------------------------- printing
static void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char* format, ...) {
  va_list a;
  va_start(a, format);
  vprintf(format, a);
  va_end(a);
  fflush(stdout);
}
static const char* N(cudaError_t e) {
  return cudaGetErrorName(e);
}
static const char* D(CUresult r) {
  const char* name = nullptr;
  if (cuGetErrorName(r, &name) != CUDA_SUCCESS || !name) return "unknown CUresult";
  return name;
}
#define CK(x)                                        \
  do {                                               \
    cudaError_t e_ = (x);                            \
    if (e_ != cudaSuccess) {                         \
      say("line %d: %s: %s\n", __LINE__, #x, N(e_)); \
      _exit(3);                                      \
    }                                                \
  } while (0)
#define CD(x)                                        \
  do {                                               \
    CUresult r_ = (x);                               \
    if (r_ != CUDA_SUCCESS) {                        \
      say("line %d: %s: %s\n", __LINE__, #x, D(r_)); \
      _exit(3);                                      \
    }                                                \
  } while (0)
static const char* error_name(int e) {  // (strerrorname_np is not in each C library)
  switch (e) {
    case EINTR:
      return "EINTR";
    case EMFILE:
      return "EMFILE";
    case EPERM:
      return "EPERM";
    case EACCES:
      return "EACCES";
    case EAGAIN:
      return "EAGAIN";
    case ENOMEM:
      return "ENOMEM";
    case EINVAL:
      return "EINVAL";
    case ENOENT:
      return "ENOENT";
    default:
      return "another error";
  }
}
static std::atomic<int> g_bad{0};
static void is(const char* what, bool ok) {
  if (!ok) g_bad = 1;
  say("%s: %s\n", what, ok ? "ok" : "WRONG");
}
static int done() {
  return g_bad ? 1 : 0;
}

// ---------------------------------------------------------------- patterns and sums
__host__ __device__ static inline u64 word(u64 seed, u64 j) {
  u64 x = seed * 0x9E3779B97F4A7C15ull + j * 0xD1B54A32D192ED03ull + 0x1234567;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  return x;
}
static void fill(void* to, size_t n, u64 seed) {
  byte* p = (byte*)to;
  size_t words = n / 8;
  for (size_t j = 0; j < words; j++) {
    u64 w = word(seed, j);
    memcpy(p + 8 * j, &w, 8);
  }
  u64 w = word(seed, words);
  if (n % 8) memcpy(p + 8 * words, &w, n % 8);
}
static u64 csum(const void* from, size_t n) {
  const byte* p = (const byte*)from;
  size_t words = n / 8;
  u64 s = n;
  for (size_t j = 0; j < words; j++) {
    u64 w;
    memcpy(&w, p + 8 * j, 8);
    s += w * (2 * j + 1);
  }
  u64 w = 0;
  if (n % 8) memcpy(&w, p + 8 * words, n % 8);
  return s + w * (2 * words + 1);
}
static u64 psum(size_t n, u64 seed) {  // the sum of a pattern, without memory
  size_t words = n / 8;
  u64 s = n;
  for (size_t j = 0; j < words; j++) s += word(seed, j) * (2 * j + 1);
  u64 w = 0;
  if (n % 8) {
    u64 full = word(seed, words);
    memcpy(&w, &full, n % 8);
  }
  return s + w * (2 * words + 1);
}

// ---------------------------------------------------------------- kernels
__device__ static u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__global__ void k_csum(const byte* p, size_t n, u64* acc) {
  size_t words = (n + 7) / 8, step = (size_t)gridDim.x * blockDim.x;
  u64 s = 0;
  for (size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x; j < words; j += step) {
    u64 w = 0;
    for (int b = 0; b < 8; b++)
      if (8 * j + b < n) w |= (u64)p[8 * j + b] << (8 * b);
    s += w * (2 * j + 1);
  }
  atomicAdd(acc, s);
}
__global__ void k_publish(const u64* acc, volatile u64* out) {
  *out = *acc;
  __threadfence_system();
}
__global__ void k_add(byte* p, size_t n, int v) {
  size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    p[i] = (byte)(p[i] + v);
}
__global__ void k_pattern(byte* p, size_t n, u64 seed) {
  size_t words = (n + 7) / 8, step = (size_t)gridDim.x * blockDim.x;
  for (size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x; j < words; j += step) {
    u64 w = word(seed, j);
    for (int b = 0; b < 8; b++)
      if (8 * j + b < n) p[8 * j + b] = (byte)(w >> (8 * b));
  }
}
__global__ void k_wait(volatile int* flag,
                       u64 ns) {  // until flag[0], or for ns; flag[1]: 1 flag, 2 time
  u64 begin = now_ns();
  int reason = 2;
  while (now_ns() - begin < ns)
    if (flag[0]) {
      reason = 1;
      break;
    }
  flag[1] = reason;
  __threadfence_system();
}
__global__ void k_delay(u64 ns) {
  u64 begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}
__global__ void k_assert(int v) {
  assert(v == 12345 && "meant to fail");
}
__global__ void k_bad(volatile int* p) {
  *p = 1;
}

static void add(byte* p, size_t n, int v, cudaStream_t s) {
  k_add<<<64, 256, 0, s>>>(p, n, v);
}
static void pattern(byte* p, size_t n, u64 seed, cudaStream_t s) {
  k_pattern<<<128, 256, 0, s>>>(p, n, seed);
}

// The sum of device memory, without a copy: a kernel writes it into mapped memory.
struct Summer {
  u64 *acc = nullptr, *out_device = nullptr;
  volatile u64* out = nullptr;
  Summer() {
    CK(cudaMalloc((void**)&acc, 8));
    CK(cudaHostAlloc((void**)&out, 8, cudaHostAllocMapped | cudaHostAllocPortable));
    CK(cudaHostGetDevicePointer((void**)&out_device, (void*)out, 0));
  }
  Summer(const Summer&) = delete;
  u64 operator()(const void* p, size_t n, cudaStream_t s) {
    *out = 0;
    CK(cudaMemsetAsync(acc, 0, 8, s));
    k_csum<<<128, 256, 0, s>>>((const byte*)p, n, acc);
    k_publish<<<1, 1, 0, s>>>(acc, out_device);
    CK(cudaStreamSynchronize(s));
    return *out + n;
  }
};
struct Gate {  // holds a stream until opened, 4 s at most
  volatile int* h = nullptr;
  int* d = nullptr;
  Gate() {
    CK(cudaHostAlloc((void**)&h, 8, cudaHostAllocMapped | cudaHostAllocPortable));
    CK(cudaHostGetDevicePointer((void**)&d, (void*)h, 0));
    h[0] = h[1] = 0;
  }
  void hold(cudaStream_t s) {
    h[0] = h[1] = 0;
    k_wait<<<1, 1, 0, s>>>(d, 4000000000ull);
  }
  void open() { h[0] = 1; }
  bool by_flag() { return h[1] == 1; }  // after the stream was waited for
};
static void warm() {  // all kernels are there, so that none is loaded while others wait
  byte* p;
  int* f;
  CK(cudaMalloc((void**)&p, 4096));
  CK(cudaHostAlloc((void**)&f, 8, cudaHostAllocMapped));
  f[0] = 1;
  int* fd;
  CK(cudaHostGetDevicePointer((void**)&fd, f, 0));
  Summer sum;
  add(p, 16, 1, 0);
  pattern(p, 16, 1, 0);
  k_wait<<<1, 1>>>(fd, 1000);
  k_delay<<<1, 1>>>(1000);
  sum(p, 16, 0);
  CK(cudaDeviceSynchronize());
  CK(cudaFree(p));
  CK(cudaFreeHost(f));
}
static cudaStream_t stream(bool blocking = false) {
  cudaStream_t s;
  CK(cudaStreamCreateWithFlags(&s, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
  return s;
}
static byte* dev(size_t n) {
  void* p;
  CK(cudaMalloc(&p, n));
  return (byte*)p;
}
static byte* anon(size_t n, int prot = PROT_READ | PROT_WRITE, int more = 0) {
  void* p = mmap(nullptr, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
  if (p == MAP_FAILED) {
    say("mmap failed: %s\n", error_name(errno));
    _exit(3);
  }
  return (byte*)p;
}
static void no_core() {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}
static pid_t tid() {
  return (pid_t)syscall(SYS_gettid);
}

// ---------------------------------------------------------------- sizes, offsets, both calls
static const size_t SIZES[] = {1,       2,       3,        63,       64,        65,       511,
                               4095,    4096,    4097,     65535,    65536,     65537,    262143,
                               262144,  262145,  524289,   1048575,  1048577,   2097152,  2097165,
                               4194303, 8388609, 33554425, 67108867, 150000011, 314572800};
static int sizes_by(bool async) {
  const size_t host_offsets[] = {0, 1, 3, 7, 63, 4095, 2048},
               device_offsets[] = {0, 1, 255, 2, 4097, 13};
  Summer sum;
  cudaStream_t s = async ? stream() : 0;
  int i = 0;
  for (size_t n : SIZES) {
    size_t ho = host_offsets[i % 7], dof = device_offsets[(i * 5 + 1) % 6],
           ho2 = host_offsets[(i * 3 + 2) % 7];
    byte *source = (byte*)malloc(n + ho + 64), *target = (byte*)malloc(n + ho2 + 128);
    byte* d = dev(n + dof + 64);
    fill(source + ho, n, i);
    CK(cudaMemset(d, 0x5A, n + dof + 64));
    CK(cudaDeviceSynchronize());
    u64 want = csum(source + ho, n);
    memset(target, 0xA5, n + ho2 + 128);
    byte* t = target + ho2 + 64;  // 64 before and behind stay as they are (ho2 moves both)
    if (async) {
      CK(cudaMemcpyAsync(d + dof, source + ho, n, cudaMemcpyHostToDevice, s));
      memset(source + ho, 0xEE, n);  // it has been staged
      CK(cudaMemcpyAsync(t, d + dof, n, cudaMemcpyDeviceToHost, s));
    } else {
      CK(cudaMemcpy(d + dof, source + ho, n, cudaMemcpyHostToDevice));
      memset(source + ho, 0xEE, n);
      CK(cudaMemcpy(t, d + dof, n, cudaMemcpyDeviceToHost));
    }
    u64 back = csum(t, n);  // right after the return
    bool edges = true;
    for (int k = 1; k <= 64; k++) edges &= t[-k] == 0xA5;
    for (size_t k = 0; t + n + k < target + n + ho2 + 128; k++) edges &= t[n + k] == 0xA5;
    u64 there = sum(d + dof, n, s);
    byte* behind = d + dof + n;
    u64 tail = sum(behind, 64, s);
    byte fives[64];
    memset(fives, 0x5A, 64);
    edges &= tail == csum(fives, 64);
    say("%zu %016llx device %s host %s edges %s\n", n, want, there == want ? "ok" : "WRONG",
        back == want ? "ok" : "WRONG", edges ? "ok" : "WRONG");
    if (there != want || back != want || !edges) g_bad = 1;
    free(source);
    free(target);
    CK(cudaFree(d));
    i++;
  }
  return done();
}
static int c_sizes() {
  return sizes_by(false);
}
static int c_sizes_async() {
  return sizes_by(true);
}

// ---------------------------------------------------------------- fuzzed order in a stream,
// against a model
static int fuzz(size_t size, size_t longest, int ops, u64 seed, bool own_stream, bool large) {
  cudaStream_t s = own_stream ? stream() : 0;
  byte* d = dev(size);
  std::vector<byte> model(size), source(longest + 64), back(longest);
  u64 state = seed * 77 + 5;
  auto rnd = [&](size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (size_t)((state >> 20) % below);
  };
  CK(cudaMemsetAsync(d, 0, size, s));
  int wrong = 0;
  for (int i = 0; i < ops; i++) {
    size_t n = 1 + rnd(longest), off = rnd(size - n), so = rnd(64);
    int op = (int)rnd(large ? 10 : 16);
    if (op == 0) {
      CK(cudaMemsetAsync(d + off, i & 255, n, s));
      memset(&model[off], i & 255, n);
    } else if (op == 1) {
      add(d + off, n, i & 255, s);
      for (size_t k = 0; k < n; k++) model[off + k] = (byte)(model[off + k] + (i & 255));
    } else if (op == 2) {
      size_t m = n / 2, other = off + n - m;
      if (m) {
        CK(cudaMemcpyAsync(d + off, d + other, m, cudaMemcpyDeviceToDevice, s));
        memmove(&model[off], &model[other], m);
      }
    } else if (op == 3) {
      if (!own_stream && (i & 1))
        CK(cudaMemcpy(back.data(), d + off, n, cudaMemcpyDeviceToHost));
      else
        CK(cudaMemcpyAsync(back.data(), d + off, n, cudaMemcpyDeviceToHost, s));
      wrong += memcmp(back.data(), &model[off], n) != 0;
    } else if (op == 4 && i % 3 == 0) {
      CK(cudaStreamSynchronize(s));
    } else {
      fill(&source[so], n, seed * 1000 + i);
      if (!own_stream && op == 5)
        CK(cudaMemcpy(d + off, &source[so], n, cudaMemcpyHostToDevice));
      else
        CK(cudaMemcpyAsync(d + off, &source[so], n,
                           op & 1 ? cudaMemcpyHostToDevice : cudaMemcpyDefault, s));
      memcpy(&model[off], &source[so], n);
      memset(&source[so], 0xDD, n);
    }
  }
  std::vector<byte> all(size);
  CK(cudaMemcpyAsync(all.data(), d, size, cudaMemcpyDeviceToHost, s));
  bool same = memcmp(all.data(), model.data(), size) == 0 && !wrong;
  say("fuzz %zu %zu %llu %s: %016llx %s\n", size, longest, seed, own_stream ? "own" : "default",
      csum(model.data(), size), same ? "ok" : "WRONG");
  if (!same) g_bad = 1;
  CK(cudaStreamSynchronize(s));
  CK(cudaFree(d));
  return same ? 0 : 1;
}
static int c_fuzz_tiny() {
  warm();
  fuzz(256 * KiB, 1500, 3000, 1, true, false);
  fuzz(256 * KiB, 1500, 3000, 2, false, false);
  fuzz(2 * KiB, 300, 2000, 3, true, false);
  fuzz(4 * MiB, 70000, 500, 4, true, false);
  return done();
}
static int c_fuzz_big() {
  warm();
  fuzz(48 * MiB, 9 * MiB, 90, 5, true, true);
  fuzz(24 * MiB, 3 * MiB, 120, 6, false, true);
  return done();
}
static int c_fuzz_threads() {
  warm();
  fflush(stdout);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  FILE* output = stdout;
  stdout = fopen("/dev/null", "w");  // order of lines is not fixed
  for (int t = 0; t < 6; t++)
    threads.emplace_back([&, t] {
      bad += fuzz(t % 2 ? 8 * MiB : 128 * KiB, t % 2 ? 2 * MiB : 1000, t % 2 ? 60 : 1200, 100 + t,
                  true, t % 2);
    });
  for (auto& t : threads) t.join();
  stdout = output;
  is("six threads, six streams", bad == 0);
  return done();
}

// ---------------------------------------------------------------- threads
static int c_storm() {
  warm();
  size_t size = 64 * MiB;
  byte* shared = (byte*)malloc(size);
  fill(shared, size, 9);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; t++)
    threads.emplace_back([&, t] {
      Summer sum;
      cudaStream_t s = t % 4 == 3 ? cudaStreamPerThread : stream(t % 4 == 2);
      byte* d = dev(8 * MiB);
      std::vector<byte> back(8 * MiB);
      for (int i = 0; i < 8; i++) {
        size_t n = 1 + (size_t)(word(t, i) % (8 * MiB)),
               off = (size_t)(word(t, i + 100) % (size - n));
        CK(cudaMemcpyAsync(d, shared + off, n, cudaMemcpyHostToDevice, s));
        u64 want = csum(shared + off, n);
        bad += sum(d, n, s) != want;
        memset(back.data(), 0, n);
        CK(cudaMemcpyAsync(back.data(), d, n, cudaMemcpyDeviceToHost, s));
        bad += memcmp(back.data(), shared + off, n) != 0;
      }
      CK(cudaFree(d));
    });
  for (auto& t : threads) t.join();
  is("16 threads, one source", bad == 0);
  say("%016llx\n", csum(shared, size));
  return done();
}
static int
c_thread_exit() {  // sources on stacks of threads that end right after an asynchronous copy
  warm();
  Summer sum;
  cudaStream_t s = stream();
  const int count = 24;
  const size_t n = MiB + 5;
  byte *d = dev(count * n), *e = dev(count * n);
  k_delay<<<1, 1, 0, s>>>(30000000);
  for (int t = 0; t < count; t++) {
    std::thread([&, t] {
      byte local[n];
      fill(local, n, t);
      CK(cudaMemcpyAsync(d + t * n, local, n, cudaMemcpyHostToDevice, s));
      byte* heap = (byte*)malloc(n);
      fill(heap, n, t + 1000);
      CK(cudaMemcpyAsync(e + t * n, heap, n, cudaMemcpyHostToDevice,
                         t % 2 ? cudaStreamPerThread : s));
      free(heap);
    }).join();
  }
  CK(cudaDeviceSynchronize());
  bool ok = true;
  for (int t = 0; t < count; t++) {
    ok &= sum(d + t * n, n, s) == psum(n, t);
    ok &= sum(e + t * n, n, s) == psum(n, t + 1000);
  }
  is("threads that ended", ok);
  pthread_attr_t attr;  // a small stack
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 * KiB);
  struct Small {
    byte *d, *h;
    size_t n;
    cudaError_t up, down;
  } small = {d, (byte*)malloc(9 * MiB), 9 * MiB, cudaErrorUnknown, cudaErrorUnknown};
  fill(small.h, small.n, 4711);
  pthread_t id;
  pthread_create(
      &id, &attr,
      [](void* v) -> void* {
        Small* a = (Small*)v;
        a->up = cudaMemcpy(a->d, a->h, a->n, cudaMemcpyHostToDevice);
        memset(a->h, 0, a->n);
        a->down = cudaMemcpy(a->h, a->d, a->n, cudaMemcpyDeviceToHost);
        return nullptr;
      },
      &small);
  pthread_join(id, nullptr);
  say("small stack: %s %s\n", N(small.up), N(small.down));
  is("small stack", csum(small.h, small.n) == psum(small.n, 4711));
  return done();
}
static int c_cancel() {  // a copy is no cancellation point
  warm();
  byte *d = dev(32 * MiB), *h = (byte*)malloc(32 * MiB);
  fill(h, 32 * MiB, 3);
  static std::atomic<int> copied{0};
  alarm(6);  // whoever is cancelled amid a copy may leave locks behind
  struct A {
    byte *d, *h;
  } a = {d, h};
  pthread_t id;
  pthread_create(
      &id, nullptr,
      [](void* v) -> void* {
        A* a = (A*)v;
        pthread_cancel(pthread_self());  // pending until a cancellation point
        if (cudaMemcpy(a->d, a->h, 32 * MiB, cudaMemcpyHostToDevice) == cudaSuccess) copied++;
        if (cudaMemcpy(a->h, a->d, 32 * MiB, cudaMemcpyDeviceToHost) == cudaSuccess) copied++;
        if (cudaMemcpyAsync(a->d, a->h, 8 * MiB, cudaMemcpyHostToDevice, cudaStreamPerThread) ==
            cudaSuccess)
          copied++;
        pthread_testcancel();
        copied = 100;
        return nullptr;
      },
      &a);
  void* result;
  pthread_join(id, &result);
  say("copies made: %d, cancelled: %d\n", copied.load(), result == PTHREAD_CANCELED);
  Summer sum;
  is("bytes", sum(d, 32 * MiB, 0) == psum(32 * MiB, 3));
  return done();
}

// ---------------------------------------------------------------- order
static int c_reuse_source() {  // one buffer, changed right after each return
  warm();
  Summer sum;
  cudaStream_t s = stream();
  for (size_t n : {(size_t)500, 48 * KiB, 64 * KiB, 300 * KiB, 3 * MiB}) {
    int count = n > MiB ? 30 : 100;
    byte *d = dev(count * n), *h = (byte*)malloc(n);
    k_delay<<<1, 1, 0, s>>>(20000000);
    for (int i = 0; i < count; i++) {
      fill(h, n, i);
      CK(cudaMemcpyAsync(d + i * n, h, n, cudaMemcpyHostToDevice, s));
    }
    memset(h, 0, n);
    bool ok = true;
    for (int i = 0; i < count; i++) ok &= sum(d + i * n, n, s) == psum(n, i);
    say("%zu ", n);
    is("as it was at the call", ok);
    CK(cudaFree(d));
    free(h);
  }
  return done();
}
static int c_chain() {  // events between two streams, kernels between copies
  warm();
  cudaStream_t s[2] = {stream(), stream(true)};
  cudaEvent_t e;
  CK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  size_t n = 3 * MiB / 2 + 1;
  byte *d = dev(n), *h = (byte*)malloc(n);
  std::vector<byte> model(n);
  fill(h, n, 1);
  memcpy(model.data(), h, n);
  bool ok = true;
  for (int i = 0; i < 60; i++) {
    cudaStream_t a = s[i % 2], b = s[1 - i % 2];
    k_delay<<<1, 1, 0, a>>>(300000);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, a));
    memset(h, 0x11, n);
    CK(cudaEventRecord(e, a));
    CK(cudaStreamWaitEvent(b, e, 0));
    add(d, n, 3, b);
    CK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, b));
    add(d, n, 77, b);  // too late for h
    for (auto& x : model) x = (byte)(x + 3);
    ok &= memcmp(h, model.data(), n) == 0;
    CK(cudaEventRecord(e, b));
    CK(cudaStreamWaitEvent(a, e, 0));
  }
  is("chain", ok);
  say("%016llx\n", csum(model.data(), n));
  cudaEvent_t t0, t1;  // events about a copy
  CK(cudaEventCreate(&t0));
  CK(cudaEventCreate(&t1));
  size_t big = 96 * MiB;
  byte *bd = dev(big), *bh = (byte*)malloc(big);
  fill(bh, big, 8);
  for (int i = 0; i < 3; i++) {
    CK(cudaEventRecord(t0, s[0]));
    CK(cudaMemcpyAsync(bd, bh, big, cudaMemcpyHostToDevice, s[0]));
    CK(cudaEventRecord(t1, s[0]));
    while (cudaEventQuery(t1) == cudaErrorNotReady) {
    }
    float ms = -1;
    CK(cudaEventElapsedTime(&ms, t0, t1));
    say("96 MiB took over 0.5 ms by events: %d\n", ms > 0.5f);
    say("stream is idle: %s\n", N(cudaStreamQuery(s[0])));
  }
  Summer sum;
  is("after a query loop", sum(bd, big, s[1]) == psum(big, 8));
  for (int how = 0; how < 4; how++) {  // from the GPU, then each way to wait
    memset(bh, 0, big);
    pattern(bd, big, 50 + how, s[0]);
    CK(cudaMemcpyAsync(bh, bd, big, cudaMemcpyDeviceToHost, s[0]));
    CK(cudaEventRecord(t1, s[0]));
    if (how == 0) CK(cudaStreamSynchronize(s[0]));
    if (how == 1) CK(cudaEventSynchronize(t1));
    if (how == 2)
      while (cudaEventQuery(t1) == cudaErrorNotReady) {
      }
    if (how == 3) CK(cudaDeviceSynchronize());
    is("after a wait", csum(bh, big) == psum(big, 50 + how));
  }
  // the source on the GPU may be written by another stream once the call returned
  pattern(bd, big, 60, s[0]);
  CK(cudaMemcpyAsync(bh, bd, big, cudaMemcpyDeviceToHost, s[0]));
  CK(cudaMemsetAsync(bd, 0, big, s[1]));
  CK(cudaDeviceSynchronize());
  is("source overwritten after the return", csum(bh, big) == psum(big, 60));
  return done();
}
static int c_default_streams() {
  warm();
  size_t n = 20 * MiB + 3;
  byte *d = dev(n), *h = (byte*)malloc(n);
  cudaStream_t blocking = stream(true);
  Summer sum;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  say("default stream: per thread\n");
  // the thread's stream and the legacy one wait for each other
  for (int i = 0; i < 3; i++) {
    k_delay<<<1, 1, 0, cudaStreamLegacy>>>(30000000);
    pattern(d, n, i, cudaStreamLegacy);
    memset(h, 0, n);
    CK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
    is("behind the legacy stream", csum(h, n) == psum(n, i));
    k_delay<<<1, 1>>>(30000000);
    pattern(d, n, i + 10, 0);
    CK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, cudaStreamLegacy));
    is("legacy behind the thread's", csum(h, n) == psum(n, i + 10));
    fill(h, n, i + 20);
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    memset(h, 1, n);
    is("sum in the legacy stream", sum(d, n, cudaStreamLegacy) == psum(n, i + 20));
  }
  // threads do not wait for each other's streams
  Gate gate;
  byte* d2 = dev(n);
  std::atomic<bool> held{false};
  std::thread waits([&] {
    gate.hold(0);
    held = true;
    CK(cudaStreamSynchronize(0));
  });
  std::thread copies([&] {
    while (!held) sched_yield();
    std::vector<byte> h2(n);
    fill(h2.data(), n, 5);
    for (int i = 0; i < 4; i++) {
      CK(cudaMemcpy(d2, h2.data(), n, cudaMemcpyHostToDevice));
      CK(cudaMemcpy(h2.data(), d2, n, cudaMemcpyDeviceToHost));
    }
    is("other thread", csum(h2.data(), n) == psum(n, 5));
    gate.open();
  });
  waits.join();
  copies.join();
  is("threads did not wait for each other", gate.by_flag());
#else
  say("default stream: legacy\n");
  for (int i = 0; i < 3; i++) {
    k_delay<<<1, 1, 0, blocking>>>(30000000);
    pattern(d, n, i, blocking);
    memset(h, 0, n);
    CK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
    is("synchronous behind a blocking stream", csum(h, n) == psum(n, i));
    k_delay<<<1, 1, 0, blocking>>>(30000000);
    pattern(d, n, i + 5, blocking);
    CK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, 0));
    is("asynchronous behind a blocking stream", csum(h, n) == psum(n, i + 5));
    k_delay<<<1, 1, 0, cudaStreamPerThread>>>(30000000);
    pattern(d, n, i + 7, cudaStreamPerThread);
    CK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, cudaStreamLegacy));
    is("legacy behind the thread's", csum(h, n) == psum(n, i + 7));
    k_delay<<<1, 1, 0, blocking>>>(10000000);
    pattern(d, n, i + 8, blocking);  // must come before the copy
    fill(h, n, i + 20);
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    memset(h, 1, n);
    is("blocking stream behind the synchronous", sum(d, n, blocking) == psum(n, i + 20));
    k_delay<<<1, 1, 0, blocking>>>(10000000);
    pattern(d, n, i + 9, blocking);
    fill(h, n, i + 30);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, 0));
    memset(h, 1, n);
    is("blocking stream behind the asynchronous", sum(d, n, blocking) == psum(n, i + 30));
  }
#endif
  // tiny ones, too
  byte tiny[1000];
  for (int i = 0; i < 50; i++) {
    pattern(d, 1000, 1, cudaStreamLegacy);
    fill(tiny, 1000, i + 40);
    CK(cudaMemcpyAsync(d, tiny, 500, cudaMemcpyHostToDevice, 0));
    CK(cudaMemcpyAsync(d + 500, tiny + 500, 500, cudaMemcpyHostToDevice, 0));
    memset(tiny, 0, 1000);
    if (sum(d, 1000, cudaStreamLegacy) != psum(1000, i + 40)) {
      is("tiny, legacy", false);
      break;
    }
  }
  return done();
}
static int c_no_wait() {  // the first large copies come while a kernel waits for the host: nothing
                          // may wait for it
  warm();
  Summer sum;
  Gate gate;
  cudaStream_t held = stream(), free_stream = stream();
  size_t n = 8 * MiB + 1;
  byte *d = dev(n), *d2 = dev(n), *h = (byte*)malloc(n), *fresh = anon(n);
  fill(h, n, 1);
  gate.hold(held);
  for (int i = 0; i < 10; i++) {
    CK(cudaMemcpyAsync(d2, h, n, cudaMemcpyHostToDevice, free_stream));
    CK(cudaMemcpyAsync(fresh, d2, n, cudaMemcpyDeviceToHost, free_stream));
  }
  is("own stream", csum(fresh, n) == psum(n, 1));
  memset(fresh, 0, n);
  gate.open();
  CK(cudaStreamSynchronize(held));
  is("did not wait for another stream", gate.by_flag());
  gate.hold(held);
  for (int i = 0; i < 10; i++) {
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(fresh, d, n, cudaMemcpyDeviceToHost));
  }
  is("default stream", csum(fresh, n) == psum(n, 1));
  gate.open();
  CK(cudaStreamSynchronize(held));
  is("synchronous did not wait for a non-blocking stream", gate.by_flag());
  gate.hold(held);
  std::thread([&] {
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, cudaStreamPerThread));
    CK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  is("bytes", sum(d, n, free_stream) == psum(n, 1));
  gate.open();
  CK(cudaStreamSynchronize(held));
  say("in a new thread: %d\n", gate.by_flag());
  return done();
}
static int c_small_no_wait() {  // 64 KiB and less return although their stream is held
  warm();
  Summer sum;
  Gate gate;
  cudaStream_t held = stream();
  const size_t lengths[] = {1, 100, 4096, 16384, 60000, 65536};
  byte *d = dev(6 * 65536), *h = (byte*)malloc(65536);
  gate.hold(held);
  for (int i = 0; i < 6; i++) {
    fill(h, lengths[i], i);
    CK(cudaMemcpyAsync(d + i * 65536, h, lengths[i], cudaMemcpyHostToDevice, held));
    memset(h, 0xFF, lengths[i]);
  }
  gate.open();
  CK(cudaStreamSynchronize(held));
  is("returned while the stream was held", gate.by_flag());
  for (int i = 0; i < 6; i++)
    is("bytes", sum(d + i * 65536, lengths[i], held) == psum(lengths[i], i));
  return done();
}
static int c_poll_tiny() {  // a kernel waits for a tiny copy, and nothing else is called
  warm();
  cudaStream_t a = stream(), b = stream();
  int *flag = (int*)dev(8), *flags;
  for (int round = 0; round < 4; round++) {
    CK(cudaMemset(flag, 0, 8));
    CK(cudaDeviceSynchronize());
    k_wait<<<1, 1, 0, a>>>(flag, 3000000000ull);
    int other = 7, one = 1;
    CK(cudaMemcpyAsync(flag + 1, &other, 4, cudaMemcpyHostToDevice, b));
    CK(cudaMemcpyAsync(flag, &one, 4, cudaMemcpyHostToDevice, b));
    usleep(100000);  // no calls
    say("over after 0.1 s: %s\n", N(cudaStreamQuery(a)));
    CK(cudaStreamSynchronize(a));
    CK(cudaStreamSynchronize(b));
    CK(cudaHostAlloc((void**)&flags, 8, 0));
    CK(cudaMemcpy(flags, flag, 8, cudaMemcpyDeviceToHost));
    say("by the flag: %d\n", flags[1] == 1);
  }
  return done();
}
static int c_destroy() {  // stream destroyed, memory freed, right behind an asynchronous copy
  warm();
  Summer sum;
  size_t n = 12 * MiB;
  byte* h = (byte*)malloc(n);
  bool ok = true;
  for (int i = 0; i < 10; i++) {
    cudaStream_t s = stream();
    byte* d = dev(n);
    fill(h, n, i);
    k_delay<<<1, 1, 0, s>>>(3000000);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s));
    CK(cudaStreamDestroy(s));
    memset(h, 0, n);
    CK(cudaDeviceSynchronize());
    ok &= sum(d, n, 0) == psum(n, i);
    s = stream();
    fill(h, n, i + 50);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s));
    CK(cudaFree(d));
    byte* again = dev(n);
    CK(cudaMemset(again, 0, n));
    CK(cudaDeviceSynchronize());
    memset(h, 0, n);
    ok &= sum(again, n, 0) == csum(h, n);  // nothing comes late
    CK(cudaFree(again));
    CK(cudaStreamDestroy(s));
  }
  is("destroyed and freed", ok);
  // stream-ordered allocation
  cudaStream_t s = stream();
  for (int i = 0; i < 20; i++) {
    void* d;
    CK(cudaMallocAsync(&d, n, s));
    fill(h, n, i);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s));
    memset(h, 0, n);
    CK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, s));
    CK(cudaFreeAsync(d, s));
    ok &= csum(h, n) == psum(n, i);
  }
  is("stream-ordered memory", ok);
  return done();
}

// ---------------------------------------------------------------- other calls that copy
__device__ byte g_symbol[4 * 1024 * 1024 + 3];
static int c_shapes() {
  Summer sum;
  size_t n = sizeof(g_symbol);
  byte *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  fill(h, n, 1);
  CK(cudaMemcpyToSymbol(g_symbol, h, n));
  CK(cudaMemcpyFromSymbol(back, g_symbol, n));
  is("symbol", csum(back, n) == psum(n, 1));
  CK(cudaMemcpyToSymbol(g_symbol, h, n - 1001, 1001));
  CK(cudaMemcpyFromSymbol(back, g_symbol, n - 1001, 1001));
  is("symbol, offset", csum(back, n - 1001) == csum(h, n - 1001));
  size_t width = 3001, height = 1500, host_pitch = 3100, pitch;
  byte *d, *box = (byte*)malloc(host_pitch * height), *box2 = (byte*)malloc(host_pitch * height);
  fill(box, host_pitch * height, 2);
  memset(box2, 0x77, host_pitch * height);
  CK(cudaMallocPitch((void**)&d, &pitch, width, height));
  CK(cudaMemcpy2D(d, pitch, box, host_pitch, width, height, cudaMemcpyHostToDevice));
  CK(cudaMemcpy2DAsync(box2, host_pitch, d, pitch, width, height, cudaMemcpyDeviceToHost, 0));
  CK(cudaStreamSynchronize(0));
  bool ok = true;
  for (size_t y = 0; y < height; y++) {
    ok &= memcmp(box + y * host_pitch, box2 + y * host_pitch, width) == 0;
    for (size_t x = width; x < host_pitch; x++) ok &= box2[y * host_pitch + x] == 0x77;
  }
  is("2D, gaps untouched", ok);
  byte* flat =
      dev(host_pitch * height);  // one row only, and rows without gaps, could become plain copies
  CK(cudaMemcpy2D(flat, host_pitch, box, host_pitch, host_pitch, height, cudaMemcpyHostToDevice));
  is("2D without gaps", sum(flat, host_pitch * height, 0) == csum(box, host_pitch * height));
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  cudaArray_t array;
  CK(cudaMallocArray(&array, &format, 1024, 700));
  std::vector<unsigned> a(1024 * 700), b(1024 * 700);
  fill(a.data(), a.size() * 4, 3);
  CK(cudaMemcpy2DToArray(array, 0, 0, a.data(), 4096, 4096, 700, cudaMemcpyHostToDevice));
  CK(cudaMemcpy2DFromArray(b.data(), 4096, array, 0, 0, 4096, 700, cudaMemcpyDeviceToHost));
  is("array", a == b);
  cudaExtent extent = make_cudaExtent(1000, 90, 30);
  cudaPitchedPtr cube;
  CK(cudaMalloc3D(&cube, extent));
  std::vector<byte> c(1000 * 90 * 30), e(c.size());
  fill(c.data(), c.size(), 4);
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(c.data(), 1000, 1000, 90);
  p.dstPtr = cube;
  p.extent = extent;
  p.kind = cudaMemcpyHostToDevice;
  CK(cudaMemcpy3D(&p));
  p.srcPtr = cube;
  p.dstPtr = make_cudaPitchedPtr(e.data(), 1000, 1000, 90);
  p.kind = cudaMemcpyDefault;
  CK(cudaMemcpy3DAsync(&p, 0));
  CK(cudaStreamSynchronize(0));
  is("3D", c == e);
  std::vector<byte> x(5 * MiB), y(5 * MiB);
  fill(x.data(), x.size(), 5);
  CK(cudaMemcpy(y.data(), x.data(), x.size(), cudaMemcpyHostToHost));
  is("host to host", x == y);
  memset(y.data(), 0, y.size());
  byte *q = dev(x.size()), *r = dev(x.size());
  CK(cudaMemcpy(q, x.data(), x.size(), cudaMemcpyDefault));
  CK(cudaMemcpy(r, q, x.size(), cudaMemcpyDefault));
  CK(cudaMemcpy(y.data(), r, x.size(), cudaMemcpyDefault));
  is("default, three ways", x == y);
  CK(cudaMemcpy(y.data(), x.data(), x.size(), cudaMemcpyDefault));
  is("default, host to host", x == y);
  cudaStream_t s = stream();
  memset(y.data(), 0, y.size());
  k_delay<<<1, 1, 0, s>>>(20000000);
  CK(cudaMemcpyAsync(y.data(), x.data(), x.size(), cudaMemcpyHostToHost, s));
  CK(cudaStreamSynchronize(s));
  is("host to host, asynchronous", x == y);
  return done();
}
static int c_batch_call() {
  cudaStream_t s = stream();
  Summer sum;
  size_t n = 3 * MiB + 1;
  const int count = 6;
  byte *d = dev(count * n), *h = (byte*)malloc(count * n), *back = (byte*)malloc(count * n);
  fill(h, count * n, 1);
  void *to[count], *from[count];
  const void* cfrom[count];
  size_t sizes[count], first = 0;
  for (int i = 0; i < count; i++) {
    to[i] = d + i * n;
    from[i] = h + i * n;
    cfrom[i] = from[i];
    sizes[i] = n;
  }
  cudaMemcpyAttributes how;
  memset(&how, 0, sizeof how);
  how.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  cudaError_t e = cudaMemcpyBatchAsync((void* const*)to, (const void* const*)cfrom, sizes, count,
                                       &how, &first, 1, s);
  say("to the GPU: %s\n", N(e));
  if (e == cudaSuccess) {
    memset(h, 0, count * n);  // read during the call
    is("bytes", sum(d, count * n, s) == psum(count * n, 1));
    for (int i = 0; i < count; i++) {
      to[i] = back + i * n;
      cfrom[i] = d + i * n;
    }
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    e = cudaMemcpyBatchAsync((void* const*)to, (const void* const*)cfrom, sizes, count, &how,
                             &first, 1, s);
    say("from the GPU: %s\n", N(e));
    say("wait: %s\n", N(cudaStreamSynchronize(s)));
    if (e == cudaSuccess) is("bytes back", csum(back, count * n) == psum(count * n, 1));
  }
  e = cudaMemcpyBatchAsync((void* const*)to, (const void* const*)cfrom, sizes, count, &how, &first,
                           1, 0);
  say("default stream: %s\n", N(e));
  cudaGetLastError();
  e = cudaMemcpyBatchAsync((void* const*)to, (const void* const*)cfrom, sizes, 0, &how, &first, 1,
                           s);
  say("none: %s\n", N(e));
  cudaGetLastError();
  say("at the end: %s\n", N(cudaDeviceSynchronize()));
  return done();
}

// ---------------------------------------------------------------- kinds of host memory
static byte g_global[9 * 1024 * 1024 + 5];
static void kind(const char* name, byte* p, size_t n, bool writable = true,
                 bool pattern_in = true) {
  static Summer sum;
  static cudaStream_t s = stream();
  byte* d = dev(n + 1);
  if (writable && pattern_in) fill(p, n, n);
  u64 want = csum(p, n);
  cudaError_t e1 = cudaMemcpy(d, p, n, cudaMemcpyHostToDevice), e2 = cudaErrorUnknown,
              e3 = cudaErrorUnknown;
  bool up = e1 == cudaSuccess && sum(d, n, 0) == want, down = true;
  if (writable) {
    pattern(d, n, 5, 0);
    CK(cudaDeviceSynchronize());
    e2 = cudaMemcpy(p, d, n, cudaMemcpyDeviceToHost);
    down = e2 == cudaSuccess && csum(p, n) == psum(n, 5);
    CK(cudaMemset(d, 0, n));
    CK(cudaDeviceSynchronize());
    e3 = cudaMemcpyAsync(d, p, n, cudaMemcpyDefault, s);
    CK(cudaStreamSynchronize(s));
    up = up && e3 == cudaSuccess && sum(d, n, s) == psum(n, 5);
  }
  say("%s: %016llx %s %s %s %s %s\n", name, want, N(e1), up ? "ok" : "WRONG", N(e2),
      down ? "ok" : "WRONG", N(e3));
  if (e1 == cudaSuccess && !up) g_bad = 1;
  if (writable && e2 == cudaSuccess && !down) g_bad = 1;
  CK(cudaFree(d));
}
static int temporary(const char* what, size_t n) {
  char name[] = "/tmp/hostile-XXXXXX";
  int fd = mkstemp(name);
  if (fd < 0) _exit(3);
  unlink(name);
  std::vector<byte> content(n);
  fill(content.data(), n, n + what[0]);
  size_t at = 0;
  while (at < n) {
    ssize_t w = write(fd, content.data() + at, n - at);
    if (w <= 0) _exit(3);
    at += (size_t)w;
  }
  return fd;
}
static u64 file_sum(int fd, size_t n) {
  std::vector<byte> content(n);
  size_t at = 0;
  while (at < n) {
    ssize_t r = pread(fd, content.data() + at, n - at, (off_t)at);
    if (r <= 0) return 0;
    at += (size_t)r;
  }
  return csum(content.data(), n);
}
static void __attribute__((noinline)) on_stack() {
  byte local[3 * 1024 * 1024 + 1];
  kind("stack", local, sizeof local);
}
static int c_host_kinds() {
  const size_t n = 6 * MiB + 4096;
  kind("malloc", (byte*)malloc(n) + 5, n - 5);
  kind("anonymous", anon(n), n);
  kind("no reserve", anon(n, PROT_READ | PROT_WRITE, MAP_NORESERVE), n);
  kind("populated", anon(n, PROT_READ | PROT_WRITE, MAP_POPULATE), n);
  kind("never touched", anon(n), n, true, false);
  kind("shared anonymous",
       (byte*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), n);
  byte* huge = (byte*)aligned_alloc(2 * MiB, 16 * MiB);
  madvise(huge, 16 * MiB, MADV_HUGEPAGE);
  kind("huge pages", huge + 1, 16 * MiB - 1);
  byte* nohuge = anon(n);
  madvise(nohuge, n, MADV_NOHUGEPAGE);
  kind("no huge pages", nohuge, n);
  int fd = temporary("private", n);
  u64 before = file_sum(fd, n);
  byte* p = (byte*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  kind("file, private", p, n, true, false);
  is("file as it was", file_sum(fd, n) == before);
  p = (byte*)mmap(nullptr, n, PROT_READ, MAP_PRIVATE, fd, 0);
  kind("file, read only", p, n, false);
  p = (byte*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  kind("file, shared", p, n, true, false);
  is("file has the bytes", file_sum(fd, n) == psum(n, 5));
  p = (byte*)mmap(nullptr, n, PROT_READ, MAP_SHARED, fd, 0);
  kind("file, shared, read only", p, n, false);
  int m = memfd_create("hostile", 0);
  if (ftruncate(m, (off_t)n)) _exit(3);
  p = (byte*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
  byte* q = (byte*)mmap(nullptr, n, PROT_READ, MAP_SHARED, m, 0);
  kind("memfd", p, n);
  is("memfd, second mapping", csum(q, n) == psum(n, 5));
  kind("memfd, sealed view", q, n, false);
  on_stack();
  kind("global", g_global + 1, sizeof g_global - 1);
  void* w;
  CK(cudaHostAlloc(&w, n, cudaHostAllocWriteCombined));
  kind("write-combined", (byte*)w, MiB);
  CK(cudaHostAlloc(&w, n, cudaHostAllocMapped));
  kind("mapped", (byte*)w + 3, n - 3);
  CK(cudaMallocManaged(&w, 16 * MiB));
  kind("managed", (byte*)w, 16 * MiB);
  p = anon(n);
  memset(p, 1, n);
  CK(cudaHostRegister(p, n, cudaHostRegisterDefault));
  kind("registered", p, n);
  CK(cudaHostUnregister(p));
  kind("unregistered", p, n);
  CK(cudaHostRegister(p, n / 2 / 4096 * 4096, cudaHostRegisterDefault));
  kind("registered to the half", p, n);
  say("last error: %s\n", N(cudaGetLastError()));
  kind("its other half", p + n / 2 / 4096 * 4096, n / 2);
  CK(cudaHostUnregister(p));
  kind("unregistered again", p, n);
  p = anon(n);
  fill(p, n, 1);
  madvise(p, n, MADV_DONTNEED);
  kind("given back", p, n, true, false);
  madvise(p, n, MADV_FREE);
  memset(p, 0, n);
  kind("given back lazily", p, n, true, false);
  p = (byte*)mremap(p, n, 3 * n, MREMAP_MAYMOVE);
  kind("grown and moved", p, 3 * n);
  mprotect(p, 3 * n, PROT_READ);
  kind("read only since", p, 3 * n, false);
  mprotect(p, 3 * n, PROT_READ | PROT_WRITE);
  kind("writable again", p, 3 * n);
  madvise(p, 3 * n, MADV_DONTFORK);
  kind("not for children", p, 3 * n);
  p = anon(64 * MiB);  // pages here and there
  for (size_t i = 0; i < 64 * MiB; i += 5 * 4096) p[i] = (byte)i;
  kind("every fifth page", p, 64 * MiB, true, false);
  byte* many = anon(n);  // many mappings side by side
  for (size_t i = 0; i < n; i += 8192)
    mmap(many + i, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  kind("many mappings", many, n);
  return done();
}
static int c_guard() {  // nothing is touched outside
  Summer sum;
  const size_t room = 12 * MiB;
  byte *base = anon(room + 8192, PROT_NONE), *p = base + 4096;
  mprotect(p, room, PROT_READ | PROT_WRITE);
  byte* d = dev(room);
  bool ok = true;
  for (size_t n : {(size_t)1, (size_t)100, 4096 + (size_t)1, 64 * KiB, 256 * KiB, 256 * KiB + 1,
                   MiB - 1, 4 * MiB + 3, 12 * MiB}) {
    byte* at_end = p + room - n;
    for (byte* q : {at_end, p}) {
      fill(q, n, n);
      CK(cudaMemcpy(d, q, n, cudaMemcpyHostToDevice));
      ok &= sum(d, n, 0) == psum(n, n);
      memset(q, 0, n);
      CK(cudaMemcpyAsync(q, d, n, cudaMemcpyDeviceToHost, 0));
      ok &= csum(q, n) == psum(n, n);
    }
    say("%zu %d\n", n, ok);
  }
  is("between guards", ok);
  madvise(p, room, MADV_DONTNEED);  // untouched up to the guard
  CK(cudaMemcpy(p, d, room, cudaMemcpyDeviceToHost));
  is("new pages", csum(p, room) == sum(d, room, 0));
  // inside what stays inaccessible to us, neighbours keep their bytes
  byte* page = anon(3 * MiB);
  memset(page, 0xAB, 3 * MiB);
  CK(cudaMemcpy(page + 4097, d, 2 * MiB, cudaMemcpyDeviceToHost));
  bool edges = true;
  for (size_t i = 0; i < 4097; i++) edges &= page[i] == 0xAB;
  for (size_t i = 4097 + 2 * MiB; i < 3 * MiB; i++) edges &= page[i] == 0xAB;
  is("neighbours", edges);
  return done();
}
static byte* g_lazy;
static size_t g_lazy_size;
static std::atomic<int> g_lazy_faults{0}, g_lazy_other{0};
static pid_t g_main;
static void lazy_handler(int, siginfo_t* info, void*) {
  byte* at = (byte*)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
  if (at < g_lazy || at >= g_lazy + g_lazy_size) _exit(77);
  if (tid() != g_main) g_lazy_other++;
  mprotect(at, 4096, PROT_READ | PROT_WRITE);
  memset(at, (int)((at - g_lazy) / 4096 % 251), 4096);
  g_lazy_faults++;
}
static int c_lazy_pages() {  // a program whose SIGSEGV handler makes its pages
  g_main = tid();
  g_lazy_size = 8 * MiB;
  Summer sum;
  byte* d = dev(g_lazy_size);
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_sigaction = lazy_handler;
  act.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &act, nullptr);
  g_lazy = anon(g_lazy_size, PROT_NONE);
  say("copy: %s\n", N(cudaMemcpy(d, g_lazy, g_lazy_size, cudaMemcpyHostToDevice)));
  say("pages made: %d, by other threads: %d\n", g_lazy_faults.load(), g_lazy_other.load());
  std::vector<byte> model(g_lazy_size);
  for (size_t i = 0; i < g_lazy_size; i += 4096) memset(&model[i], (int)(i / 4096 % 251), 4096);
  is("bytes", sum(d, g_lazy_size, 0) == csum(model.data(), g_lazy_size));
  madvise(g_lazy, g_lazy_size, MADV_DONTNEED);
  mprotect(g_lazy, g_lazy_size, PROT_NONE);
  g_lazy_faults = 0;
  say("copy: %s\n", N(cudaMemcpy(g_lazy, d, g_lazy_size, cudaMemcpyDeviceToHost)));
  say("pages made: %d, by other threads: %d\n", g_lazy_faults.load(), g_lazy_other.load());
  is("bytes back", csum(g_lazy, g_lazy_size) == csum(model.data(), g_lazy_size));
  return done();
}

// ---------------------------------------------------------------- crashes as they were
static int c_read_only_target() {  // the driver crashes or refuses
  no_core();
  size_t n = 8 * MiB;
  byte *d = dev(n), *h = anon(n);
  CK(cudaMemset(d, 1, n));
  memset(h, 2, n);
  mprotect(h, n, PROT_READ);
  say("before\n");
  cudaError_t e = cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);
  say("%s\n", N(e));
  say("%016llx\n", csum(h, n));
  return 0;
}
static int c_beyond_file() {  // SIGBUS
  no_core();
  size_t n = 8 * MiB;
  int fd = temporary("short", n - 3 * MiB);
  byte *h = (byte*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *d = dev(n);
  CK(cudaMemcpy(d, h, n - 3 * MiB, cudaMemcpyHostToDevice));
  say("before\n");
  say("%s\n", N(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice)));
  return 0;
}
static byte* g_fault_base;
static void fault_handler(int number, siginfo_t* info, void*) {
  char line[200];
  int n = snprintf(line, sizeof line, "signal %d code %d page %ld in %s\n", number, info->si_code,
                   (long)(((byte*)info->si_addr - g_fault_base) / 4096),
                   tid() == g_main ? "the main thread" : "another thread");
  if (write(1, line, (size_t)n) < 0) _exit(8);
  _exit(7);
}
static int hole(bool to_gpu) {  // one page within is not there
  no_core();
  g_main = tid();
  size_t n = 16 * MiB;
  byte *d = dev(n), *h = anon(n);
  memset(h, 2, n);
  g_fault_base = h;
  CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
  mprotect(h + 1111 * 4096, 4096, PROT_NONE);
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_sigaction = fault_handler;
  act.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &act, nullptr);
  sigaction(SIGBUS, &act, nullptr);
  cudaError_t e = to_gpu ? cudaMemcpy(d, h, n, cudaMemcpyHostToDevice)
                         : cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);
  say("%s\n", N(e));
  return 0;
}
static int c_hole_source() {
  return hole(true);
}
static int c_hole_target() {
  return hole(false);
}

// ---------------------------------------------------------------- errors
static void expect(const char* what, cudaError_t e) {
  cudaError_t peek = cudaPeekAtLastError(), last = cudaGetLastError(), then = cudaGetLastError();
  say("%s: %s, peek %s, last %s, then %s\n", what, N(e), N(peek), N(last), N(then));
}
static int c_errors() {
  size_t n = 4 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(2 * n);
  fill(h, 2 * n, 1);
  Summer sum;
  auto good = [&] {
    memset(h + n, 0, n);
    cudaError_t up = cudaMemcpy(d, h, n, cudaMemcpyHostToDevice),
                down = cudaMemcpy(h + n, d, n, cudaMemcpyDeviceToHost);
    if (up != cudaSuccess || down != cudaSuccess || csum(h + n, n) != psum(n, 1))
      is("a good copy after it", false);
  };
  cudaStream_t s = stream();
  size_t lengths[] = {0, 1, 1000, 64 * KiB, 300 * KiB, 3 * MiB};
  for (size_t m : lengths) {
    say("length %zu\n", m);
    expect("no target", cudaMemcpy(nullptr, h, m, cudaMemcpyHostToDevice));
    expect("no target, asynchronous", cudaMemcpyAsync(nullptr, h, m, cudaMemcpyHostToDevice, s));
    expect("no source", cudaMemcpy(h, nullptr, m, cudaMemcpyDeviceToHost));
    expect("kind 9", cudaMemcpy(d, h, m, (cudaMemcpyKind)9));
    expect("kind -1", cudaMemcpyAsync(d, h, m, (cudaMemcpyKind)-1, s));
    expect("to a host pointer", cudaMemcpy(h, h + n, m, cudaMemcpyHostToDevice));
    expect("from a host pointer", cudaMemcpy(h, h + n, m, cudaMemcpyDeviceToHost));
    good();
  }
  expect("too long", cudaMemcpy(d, h, n + 4096, cudaMemcpyHostToDevice));
  good();
  expect("too long back", cudaMemcpy(h, d + n / 2, n / 2 + 8192, cudaMemcpyDeviceToHost));
  good();
  expect("too long, asynchronous", cudaMemcpyAsync(d + 1, h, n, cudaMemcpyHostToDevice, s));
  expect("all memory", cudaMemcpy(d, h, (size_t)-1, cudaMemcpyHostToDevice));
  good();
  expect("half of all memory", cudaMemcpyAsync(d, h, (size_t)1 << 63, cudaMemcpyHostToDevice, s));
  good();
  expect("before the start", cudaMemcpy(d - 4096, h, 2 * MiB, cudaMemcpyHostToDevice));
  byte* freed = dev(64 * MiB);
  CK(cudaFree(freed));
  expect("freed", cudaMemcpy(freed, h, 3 * MiB, cudaMemcpyHostToDevice));
  expect("freed, back", cudaMemcpyAsync(h, freed, 3 * MiB, cudaMemcpyDeviceToHost, s));
  good();
  expect("wait", cudaStreamSynchronize(s));
  // an error that was there before stays the last one: a good copy does not take it away
  void* none = nullptr;
  cudaError_t e = cudaMalloc(&none, (size_t)1 << 46);
  CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
  say("1 << 46 bytes: %s, still the last after a good copy: %s\n", N(e), N(cudaGetLastError()));
  // out of memory, then copies
  for (int i = 0; i < 3; i++) {
    say("%s ", N(cudaMalloc(&none, (size_t)1 << 42)));
    say("%s\n", N(cudaMallocAsync(&none, (size_t)1 << 42, s)));
    cudaGetLastError();
    good();
  }
  is("at the end", sum(d, n, s) == psum(n, 1) && cudaGetLastError() == cudaSuccess);
  return done();
}
static void children(const std::vector<std::pair<const char*, std::function<void()>>>& probes) {
  struct One {
    pid_t pid;
    int fd;
  };
  std::vector<One> all;
  fflush(stdout);
  for (auto& probe : probes) {
    int ends[2];
    if (pipe(ends)) _exit(3);
    pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], 1);
      close(ends[0]);
      close(ends[1]);
      alarm(6);
      no_core();
      probe.second();
      fflush(stdout);
      _exit(0);
    }
    close(ends[1]);
    all.push_back({pid, ends[0]});
  }
  for (size_t i = 0; i < all.size(); i++) {
    std::string text;
    char some[4096];
    ssize_t r;
    while ((r = read(all[i].fd, some, sizeof some)) > 0) text.append(some, (size_t)r);
    int status = 0;
    waitpid(all[i].pid, &status, 0);
    say("%s: %s%s %d\n", probes[i].first, text.c_str(), WIFSIGNALED(status) ? "signal" : "exit",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
}
static int c_wild() {  // each in a process of its own, begun before CUDA
  const size_t n = 6 * MiB;
  auto both = [](cudaError_t e) { say("%s %s ", N(e), N(cudaGetLastError())); };
  children({
      {"source not mapped",
       [=] { both(cudaMemcpy(dev(n), (void*)0x10000, n, cudaMemcpyHostToDevice)); }},
      {"source unmapped",
       [=] {
         byte *h = anon(n), *d = dev(n);
         memset(h, 1, n);
         both(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
         munmap(h, n);
         both(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
       }},
      {"source on the GPU",
       [=] {
         byte *d = dev(n), *e = dev(n);
         both(cudaMemcpy(d, e, n, cudaMemcpyHostToDevice));
       }},
      {"target on the GPU",
       [=] {
         byte *d = dev(n), *e = dev(n);
         both(cudaMemcpy(e, d, n, cudaMemcpyDeviceToHost));
       }},
      {"target not canonical",
       [=] { both(cudaMemcpy((void*)0xdead000000000000ull, dev(n), n, cudaMemcpyDeviceToHost)); }},
      {"source in the kernel",
       [=] { both(cudaMemcpy(dev(n), (void*)0xffffffff81000000ull, n, cudaMemcpyHostToDevice)); }},
  });
  children({
      {"last page read only",
       [=] {
         byte *h = anon(n), *d = dev(n);
         CK(cudaMemset(d, 7, n));
         mprotect(h + n - 4096, 4096, PROT_READ);
         both(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
       }},
      {"asynchronous, read only",
       [=] {
         byte *h = anon(n, PROT_READ), *d = dev(n);
         both(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, stream()));
         say("%s ", N(cudaDeviceSynchronize()));
       }},
      {"write only source",
       [=] {
         byte *h = anon(n, PROT_WRITE), *d = dev(n);
         both(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, stream()));
         say("%s ", N(cudaDeviceSynchronize()));
       }},
      {"executable memory",
       [=] {
         byte *h = anon(n, PROT_READ | PROT_WRITE | PROT_EXEC), *d = dev(n);
         both(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, stream()));
         say("%s ", N(cudaDeviceSynchronize()));
       }},
      {"small, not mapped",
       [=] {
         both(cudaMemcpyAsync(dev(n), (void*)0x10000, 100, cudaMemcpyHostToDevice, stream()));
       }},
      {"small target, not mapped",
       [=] { both(cudaMemcpy((void*)0x10000, dev(n), 100, cudaMemcpyDeviceToHost)); }},
  });
  return 0;
}
static int sticky(bool by_assert) {
  no_core();
  warm();
  size_t n = 8 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n);
  fill(h, n, 1);
  cudaStream_t s = stream();
  CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
  if (by_assert)
    k_assert<<<1, 1, 0, s>>>(1);
  else
    k_bad<<<1, 1, 0, s>>>((int*)8);
  // this copy waits for the kernel
  say("asynchronous, from the GPU: %s\n", N(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, s)));
  say("wait: %s\n", N(cudaDeviceSynchronize()));
  say("to the GPU: %s\n", N(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice)));
  say("tiny: %s\n", N(cudaMemcpyAsync(d, h, 100, cudaMemcpyHostToDevice, s)));
  say("from the GPU: %s\n", N(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost)));
  say("last: %s, again: %s\n", N(cudaGetLastError()), N(cudaGetLastError()));
  say("source untouched: %d\n", csum(h, n) == psum(n, 1));
  void* p = nullptr;
  say("malloc: %s\n", N(cudaMalloc(&p, 4096)));
  say("free: %s\n", N(cudaFree(d)));
  say("reset: %s\n", N(cudaDeviceReset()));
  cudaGetLastError();
  cudaError_t e = cudaMalloc(&p, n);
  say("malloc after a reset: %s\n", N(e));
  if (e == cudaSuccess) {
    say("copy: %s\n", N(cudaMemcpy(p, h, n, cudaMemcpyHostToDevice)));
    memset(h, 0, n);
    say("copy back: %s\n", N(cudaMemcpy(h, p, n, cudaMemcpyDeviceToHost)));
    is("bytes after a reset", csum(h, n) == psum(n, 1));
  }
  return done();
}
static int c_sticky_assert() {
  return sticky(true);
}
static int c_sticky_address() {
  return sticky(false);
}

// ---------------------------------------------------------------- graphs
static int c_capture() {
  warm();
  size_t n = 5 * MiB + 1;
  byte *d = dev(n), *d2 = dev(n), *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  Summer sum;
  cudaStream_t s = stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  fill(h, n, 1);
  // pageable memory in a capture: the first large copy of this process
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  say("captured pageable to the GPU: %s\n", N(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s)));
  add(d, n, 1, s);
  say("captured pageable from the GPU: %s\n",
      N(cudaMemcpyAsync(back, d, n, cudaMemcpyDeviceToHost, s)));
  cudaError_t e = cudaStreamEndCapture(s, &graph);
  say("end: %s\n", N(e));
  cudaGetLastError();
  if (e == cudaSuccess) {
    size_t nodes = 0;
    CK(cudaGraphGetNodes(graph, nullptr, &nodes));
    say("nodes: %zu\n", nodes);
    e = cudaGraphInstantiate(&exec, graph, 0);
    say("instantiate: %s\n", N(e));
    for (int i = 0; e == cudaSuccess && i < 3; i++) {
      fill(h, n, i + 10);
      memset(back, 0, n);
      cudaError_t launched = cudaGraphLaunch(exec, s), ended = cudaStreamSynchronize(s);
      say("replay: %s %s\n", N(launched), N(ended));
      if (launched != cudaSuccess || ended != cudaSuccess) break;
      for (size_t k = 0; k < n; k++) h[k]++;
      is("replay reads what is there", csum(back, n) == csum(h, n));
    }
  }
  // pinned memory
  byte* p;
  CK(cudaHostAlloc((void**)&p, 2 * n, 0));
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  CK(cudaMemcpyAsync(d, p, n, cudaMemcpyHostToDevice, s));
  add(d, n, 1, s);
  CK(cudaMemcpyAsync(p + n, d, n, cudaMemcpyDeviceToHost, s));
  // copies outside of the capture, in the same thread, as relaxed allows
  cudaStream_t other = stream();
  say("beside a relaxed capture: %s\n",
      N(cudaMemcpyAsync(d2, h, n, cudaMemcpyHostToDevice, other)));
  say("end: %s\n", N(cudaStreamEndCapture(s, &graph)));
  size_t nodes = 0;
  CK(cudaGraphGetNodes(graph, nullptr, &nodes));
  say("nodes: %zu\n", nodes);
  CK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 4; i++) {
    fill(p, n, i);
    CK(cudaGraphLaunch(exec, s));
    CK(cudaStreamSynchronize(s));
    for (size_t k = 0; k < n; k++) p[k]++;
    is("pinned replay", memcmp(p, p + n, n) == 0);
  }
  say("synchronous in a capture\n");  // refused, and the capture is broken or not, as by the driver
  CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  add(d, n, 1, s);
  say("copy: %s\n", N(cudaMemcpy(d2, h, n, cudaMemcpyHostToDevice)));
  say("end: %s\n", N(cudaStreamEndCapture(s, &graph)));
  cudaGetLastError();
  is("afterwards",
     cudaMemcpy(d2, h, n, cudaMemcpyHostToDevice) == cudaSuccess && sum(d2, n, 0) == csum(h, n));
  return done();
}
static int capture_while_copying(
    cudaStreamCaptureMode mode) {  // another thread copies while this one captures
  warm();
  size_t n = 9 * MiB;
  byte *d = dev(n), *d2 = dev(n), *h = (byte*)malloc(n), *back = anon(n);
  cudaStream_t s = stream(), t = stream();
  CK(cudaMemset(d, 1, n));
  CK(cudaDeviceSynchronize());
  fill(h, n, 3);
  for (int round = 0; round < 2;
       round++) {  // the first large copies of the process, and later ones
    cudaGraph_t graph = nullptr;
    CK(cudaStreamBeginCapture(s, mode));
    add(d, n, 1, s);
    std::thread([&] {
      say("asynchronous, to: %s\n", N(cudaMemcpyAsync(d2, h, n, cudaMemcpyHostToDevice, t)));
      say("asynchronous, from: %s\n", N(cudaMemcpyAsync(back, d2, n, cudaMemcpyDeviceToHost, t)));
      for (int i = 0; i < 20; i++)
        cudaMemcpyAsync(d2 + i * 100, h + i * 100, 100, cudaMemcpyHostToDevice, t);
      cudaGetLastError();
    }).join();
    add(d, n, 1, s);
    cudaError_t e = cudaStreamEndCapture(s, &graph);
    say("end: %s\n", N(e));
    cudaGetLastError();
    if (e == cudaSuccess) {
      size_t nodes = 0;
      CK(cudaGraphGetNodes(graph, nullptr, &nodes));
      say("nodes: %zu\n", nodes);
    }
    CK(cudaDeviceSynchronize());
    say("bytes: %d\n", csum(back, n) == psum(n, 3));
    memset(back, 0, n);
  }
  cudaGraph_t graph = nullptr;
  CK(cudaStreamBeginCapture(s, mode));
  add(d, n, 1, s);
  std::thread([&] {
    say("synchronous, to: %s\n", N(cudaMemcpy(d2, h, n, cudaMemcpyHostToDevice)));
    say("synchronous, from: %s\n", N(cudaMemcpy(back, d2, n, cudaMemcpyDeviceToHost)));
    cudaGetLastError();
  }).join();
  say("end: %s\n", N(cudaStreamEndCapture(s, &graph)));
  cudaGetLastError();
  say("wait: %s\n", N(cudaDeviceSynchronize()));
  return done();
}
static int c_capture_global() {
  return capture_while_copying(cudaStreamCaptureModeGlobal);
}
static int c_capture_local() {
  return capture_while_copying(cudaStreamCaptureModeThreadLocal);
}

// ---------------------------------------------------------------- host functions
struct Callback {
  std::mutex m;
  std::condition_variable c;
  bool go = false, released = false;
  const byte* p = nullptr;
  size_t n = 0;
  u64 sum = 0;
};
static int c_host_function() {
  warm();
  Summer sum;
  size_t n = 7 * MiB;
  byte *d = dev(n), *d2 = dev(n), *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  cudaStream_t s = stream(), t = stream();
  fill(h, n, 1);
  // a function in between sees the bytes that a copy before it brought
  Callback look;
  look.p = back;
  look.n = n;
  CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s));
  memset(h, 0, n);
  CK(cudaMemcpyAsync(back, d, n, cudaMemcpyDeviceToHost, s));
  CK(cudaLaunchHostFunc(
      s,
      [](void* v) {
        Callback* c = (Callback*)v;
        c->sum = csum(c->p, c->n);
      },
      &look));
  CK(cudaStreamSynchronize(s));
  is("function behind a copy", look.sum == psum(n, 1));
  // a function waits until copies of another stream are over
  Callback wait;
  CK(cudaLaunchHostFunc(
      s,
      [](void* v) {
        Callback* c = (Callback*)v;
        std::unique_lock<std::mutex> lock(c->m);
        c->released = c->c.wait_for(lock, std::chrono::seconds(4), [&] { return c->go; });
      },
      &wait));
  fill(h, n, 2);
  for (int i = 0; i < 5; i++) {
    CK(cudaMemcpyAsync(d2, h, n, cudaMemcpyHostToDevice, t));
    CK(cudaMemcpyAsync(back, d2, n, cudaMemcpyDeviceToHost, t));
  }
  {
    std::lock_guard<std::mutex> lock(wait.m);
    wait.go = true;
  }
  wait.c.notify_all();
  CK(cudaStreamSynchronize(s));
  is("copies beside a waiting function", wait.released && csum(back, n) == psum(n, 2));
  // a thread's copy is what the function waits for, and the function writes pinned memory for a
  // later copy
  byte* pinned;
  CK(cudaHostAlloc((void**)&pinned, n, 0));
  memset(pinned, 0, n);
  Callback write;
  write.p = pinned;
  write.n = n;
  k_delay<<<1, 1, 0, s>>>(10000000);
  CK(cudaLaunchHostFunc(
      s,
      [](void* v) {
        Callback* c = (Callback*)v;
        fill((void*)c->p, c->n, 77);
      },
      &write));
  CK(cudaMemcpyAsync(d, pinned, n, cudaMemcpyHostToDevice, s));
  is("pinned memory is read in its turn", sum(d, n, s) == psum(n, 77));
  // callbacks that wake a thread which copies in the same stream
  std::atomic<int> stage{0};
  CK(cudaLaunchHostFunc(s, [](void* v) { *(std::atomic<int>*)v = 1; }, &stage));
  std::thread thread([&] {
    while (!stage) sched_yield();
    fill(h, n, 3);
    CK(cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s));
    memset(h, 0, n);
  });
  thread.join();
  is("copy after a function", sum(d, n, s) == psum(n, 3));
  return done();
}

// ---------------------------------------------------------------- pinned memory is left alone
static int
c_pinned_order() {  // asynchronous copies of pinned memory return at once and read in their turn
  warm();
  Summer sum;
  Gate gate;
  cudaStream_t s = stream(), t = stream();
  size_t n = 8 * MiB;
  byte *d = dev(n), *d2 = dev(n);
  byte *allocated, *combined, *mapped;
  CK(cudaHostAlloc((void**)&allocated, n, 0));
  CK(cudaHostAlloc((void**)&combined, n, cudaHostAllocWriteCombined));
  CK(cudaHostAlloc((void**)&mapped, n, cudaHostAllocMapped | cudaHostAllocPortable));
  byte *registered = anon(n + MiB), *once = anon(n);
  fill(registered, n + MiB, 1);  // used as pageable memory first
  CK(cudaMemcpyAsync(d, registered, n, cudaMemcpyHostToDevice, t));
  CK(cudaMemcpyAsync(registered, d, n, cudaMemcpyDeviceToHost, t));
  CK(cudaHostRegister(registered, n + MiB, cudaHostRegisterMapped));
  fill(once, n, 1);
  CK(cudaHostRegister(once, n, 0));  // becomes pageable, and pinned again, at the same address
  CK(cudaMemcpyAsync(d, once, n, cudaMemcpyHostToDevice, t));
  CK(cudaStreamSynchronize(t));
  CK(cudaHostUnregister(once));
  CK(cudaMemcpyAsync(d, once, n, cudaMemcpyHostToDevice, t));
  CK(cudaStreamSynchronize(t));
  munmap(once, n);
  once =
      (byte*)mmap(once, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  memset(once, 1, n);
  CK(cudaHostRegister(once, n, 0));
  struct {
    const char* name;
    byte* p;
  } all[] = {{"allocated", allocated},
             {"write-combined", combined},
             {"mapped", mapped},
             {"registered", registered + MiB - 4096 + 16},
             {"same address", once}};
  for (auto& one : all) {
    size_t m = n - 16;
    memset(one.p, 0x33, m);
    gate.hold(s);
    CK(cudaMemcpyAsync(d, one.p, m, cudaMemcpyHostToDevice, s));
    CK(cudaMemcpyAsync(d2, d, m, cudaMemcpyDeviceToDevice, s));
    fill(one.p, m, 9);  // before the stream goes on: these bytes count
    gate.open();
    CK(cudaStreamSynchronize(s));
    say("%s: ", one.name);
    is("returned at once", gate.by_flag());
    is("read in its turn", sum(d2, m, s) == psum(m, 9));
    gate.hold(s);
    pattern(d, m, 21, s);
    CK(cudaMemcpyAsync(one.p, d, m, cudaMemcpyDeviceToHost, s));
    bool still = one.p == combined || csum(one.p, m) == psum(m, 9);
    gate.open();
    CK(cudaStreamSynchronize(s));
    is("back: returned at once", gate.by_flag() && still);
    if (one.p != combined) is("back: bytes", csum(one.p, m) == psum(m, 21));
    // small ones
    gate.hold(s);
    memset(one.p, 1, 1000);
    for (int i = 0; i < 10; i++)
      CK(cudaMemcpyAsync(d + i * 100, one.p + i * 100, 100, cudaMemcpyHostToDevice, s));
    fill(one.p, 1000, 10);
    gate.open();
    say("tiny, read in their turn: %d\n",
        sum(d, 1000, s) == psum(1000, 10));  // as the driver does it
  }
  CK(cudaHostUnregister(once));
  fill(once, n, 30);
  k_delay<<<1, 1, 0, s>>>(10000000);
  CK(cudaMemcpyAsync(d, once, n, cudaMemcpyHostToDevice, s));
  memset(once, 0, n);  // pageable again: staged
  is("pageable again", sum(d, n, s) == psum(n, 30));
  return done();
}
static int c_managed() {
  Summer sum;
  size_t n = 24 * MiB;
  byte *m, *h = (byte*)malloc(n), *d = dev(n);
  CK(cudaMallocManaged((void**)&m, n));
  fill(h, n, 1);
  CK(cudaMemcpy(m, h, n, cudaMemcpyDefault));
  is("pageable to managed", csum(m, n) == psum(n, 1));
  CK(cudaMemcpy(m, h, n, cudaMemcpyHostToDevice));
  is("on the GPU", sum(m, n, 0) == psum(n, 1));
  pattern(m, n, 2, 0);
  CK(cudaMemcpy(h, m, n, cudaMemcpyDefault));
  is("managed to pageable", csum(h, n) == psum(n, 2));
  pattern(m, n, 3, 0);
  CK(cudaMemcpy(h, m, n, cudaMemcpyDeviceToHost));
  is("managed as device memory", csum(h, n) == psum(n, 3));
  CK(cudaDeviceSynchronize());
  fill(m, n, 4);
  CK(cudaMemcpy(d, m, n, cudaMemcpyHostToDevice));
  is("managed as host memory", sum(d, n, 0) == psum(n, 4));
  cudaStream_t s = stream();
  pattern(d, n, 5, s);
  CK(cudaMemcpyAsync(m, d, n, cudaMemcpyDeviceToHost, s));
  CK(cudaStreamSynchronize(s));
  is("into managed memory", csum(m, n) == psum(n, 5));
  return done();
}

// ---------------------------------------------------------------- contexts, by the driver's own
// functions
static int c_contexts() {
  CD(cuInit(0));
  CUdevice device;
  CD(cuDeviceGet(&device, 0));
  size_t n = 6 * MiB;
  std::vector<byte> h(n), back(n);
  fill(h.data(), n, 1);
  CUdeviceptr nowhere = 0;
  say("without a context: %s %s\n", D(cuMemcpyHtoD(nowhere, h.data(), n)),
      D(cuMemcpyDtoH(back.data(), nowhere, n)));
  CUcontext a, b;
  CD(cuCtxCreate(&a, nullptr, 0, device));
  CUdeviceptr pa, pb;
  CD(cuMemAlloc(&pa, n));
  CD(cuMemcpyHtoD(pa, h.data(), n));
  CD(cuCtxCreate(&b, nullptr, 0, device));
  CD(cuMemAlloc(&pb, n));
  CUstream sb, sa;
  CD(cuStreamCreate(&sb, CU_STREAM_NON_BLOCKING));
  CD(cuMemcpyHtoDAsync(pb, h.data(), n, sb));
  CD(cuStreamSynchronize(sb));
  // memory of one context, while another one is current
  memset(back.data(), 0, n);
  say("memory of the other context: %s\n", D(cuMemcpyDtoH(back.data(), pa, n)));
  is("bytes", csum(back.data(), n) == psum(n, 1));
  fill(h.data(), n, 2);
  say("to the other context: %s\n", D(cuMemcpyHtoD(pa, h.data(), n)));
  say("by a stream of this one: %s\n", D(cuMemcpyHtoDAsync(pa, h.data(), n, sb)));
  say("wait: %s\n", D(cuStreamSynchronize(sb)));
  CUcontext popped;
  CD(cuCtxPopCurrent(&popped));
  say("context: %d\n", popped == b);
  CD(cuCtxSetCurrent(a));
  CD(cuStreamCreate(&sa, CU_STREAM_DEFAULT));
  say("stream of the other context: %s\n", D(cuMemcpyHtoDAsync(pa, h.data(), n, sb)));
  memset(back.data(), 0, n);
  CD(cuMemcpyDtoHAsync(back.data(), pa, n, sa));
  CD(cuStreamSynchronize(sa));
  is("bytes of the first", csum(back.data(), n) == psum(n, 2));
  say("whoever's: %s\n", D(cuMemcpy((CUdeviceptr)back.data(), pb, n)));
  is("bytes of the second", csum(back.data(), n) == psum(n, 1));
  // contexts come and go while a thread copies in another one
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::thread copies([&] {
    CD(cuCtxSetCurrent(b));
    std::vector<byte> x(n), y(n);
    fill(x.data(), n, 5);
    while (!stop) {
      CD(cuMemcpyHtoD(pb, x.data(), n));
      CD(cuMemcpyDtoHAsync(y.data(), pb, n, sb));
      bad += memcmp(x.data(), y.data(), n) != 0;
    }
    CUcontext current;
    CD(cuCtxGetCurrent(&current));
    bad += current != b;
  });
  for (int i = 0; i < 3; i++) {
    CUcontext c;
    CUdeviceptr pc;
    CD(cuCtxCreate(&c, nullptr, 0, device));
    CD(cuMemAlloc(&pc, n));
    fill(h.data(), n, 10 + i);
    CD(cuMemcpyHtoD(pc, h.data(), n));
    CD(cuMemcpyHtoDAsync(pc, h.data(), n, nullptr));
    memset(back.data(), 0, n);
    CD(cuMemcpyDtoH(back.data(), pc, n));
    is("a new context", csum(back.data(), n) == psum(n, 10 + i));
    CD(cuCtxDestroy(c));
    CUcontext current;
    CD(cuCtxGetCurrent(&current));
    say("current after: %d\n", current == a);
  }
  stop = true;
  copies.join();
  is("the other thread's copies", bad == 0);
  CD(cuCtxSetCurrent(a));
  CD(cuCtxDestroy(b));
  say("memory of a destroyed context: %s\n", D(cuMemcpyDtoH(back.data(), pb, n)));
  CD(cuMemcpyDtoH(back.data(), pa, n));
  CD(cuCtxDestroy(a));
  say("after all: %s\n", D(cuMemcpyHtoD(pa, h.data(), n)));
  CUcontext primary;  // the primary one, retained and released
  for (int i = 0; i < 2; i++) {
    CD(cuDevicePrimaryCtxRetain(&primary, device));
    CD(cuCtxSetCurrent(primary));
    CD(cuMemAlloc(&pa, n));
    fill(h.data(), n, 20 + i);
    CD(cuMemcpyHtoD(pa, h.data(), n));
    CD(cuMemcpyDtoH(back.data(), pa, n));
    is("primary", csum(back.data(), n) == psum(n, 20 + i));
    CD(cuCtxSetCurrent(nullptr));
    CD(cuDevicePrimaryCtxRelease(device));
  }
  return done();
}
static int c_reset() {
  size_t n = 20 * MiB;
  std::vector<byte> h(n), back(n);
  for (int i = 0; i < 3; i++) {
    byte* d = dev(n);
    cudaStream_t s = stream();
    fill(h.data(), n, i);
    CK(cudaMemcpyAsync(d, h.data(), n, cudaMemcpyHostToDevice, s));
    for (int k = 0; k < 30; k++)
      CK(cudaMemcpyAsync(d + k * 10, h.data() + k * 10, 10, cudaMemcpyHostToDevice, s));
    CK(cudaMemcpyAsync(back.data(), d, n, cudaMemcpyDeviceToHost, s));
    is("before the reset", csum(back.data(), n) == psum(n, i));
    CK(cudaMemcpyAsync(d, h.data(), n, cudaMemcpyHostToDevice, s));
    CK(cudaDeviceReset());
  }
  byte* d = dev(n);
  CK(cudaMemcpy(d, h.data(), n, cudaMemcpyHostToDevice));
  CUdevice device;
  CD(cuDeviceGet(&device, 0));
  CD(cuDevicePrimaryCtxReset(device));
  say("memory of before a reset: %s\n", N(cudaMemcpy(back.data(), d, n, cudaMemcpyDeviceToHost)));
  say("last: %s\n", N(cudaGetLastError()));
  return done();
}
static int c_vmm() {  // memory of several allocations side by side
  CK(cudaFree(nullptr));
  CUmemAllocationProp prop;
  memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = 0;
  size_t grain;
  CD(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size_t piece = (4 * MiB + grain - 1) / grain * grain, n = 3 * piece;
  CUdeviceptr p;
  CD(cuMemAddressReserve(&p, n + piece, 0, 0, 0));
  CUmemGenericAllocationHandle handles[3];
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (int i = 0; i < 3; i++) {
    CD(cuMemCreate(&handles[i], piece, &prop, 0));
    CD(cuMemMap(p + i * piece, piece, 0, handles[i], 0));
    CD(cuMemSetAccess(p + i * piece, piece, &access, 1));
  }
  std::vector<byte> h(n + piece), back(n);
  fill(h.data(), n, 1);
  CUresult r = cuMemcpyHtoD(p, h.data(), n);
  say("over three allocations: %s\n", D(r));
  Summer sum;
  if (r == CUDA_SUCCESS) is("bytes", sum((void*)p, n, 0) == psum(n, 1));
  r = cuMemcpyDtoHAsync(back.data(), p, n, nullptr);
  say("back: %s\n", D(r));
  if (r == CUDA_SUCCESS) is("bytes", csum(back.data(), n) == psum(n, 1));
  say("beyond them: %s\n", D(cuMemcpyHtoD(p, h.data(), n + 4096)));
  say("one of them: %s\n", D(cuMemcpyHtoD(p + piece + 1, h.data() + 3, piece - 1)));
  is("bytes of one", sum((void*)(p + piece + 1), piece - 1, 0) == csum(h.data() + 3, piece - 1));
  CD(cuMemUnmap(p + piece, piece));
  say("over a hole: %s\n", D(cuMemcpyHtoD(p, h.data(), n)));
  say("last piece: %s\n", D(cuMemcpyHtoD(p + 2 * piece, h.data(), piece)));
  say("sync: %s\n", D(cuCtxSynchronize()));
  return done();
}

// ---------------------------------------------------------------- the driver by hand
static int c_by_hand() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  say("dlopen: %d\n", library != nullptr);
  if (!library) return 1;
  dlerror();
  say("no such function: %d", dlsym(library, "cuMemcpyNonsense") == nullptr);
  const char* error = dlerror();
  say(" %d\n", error && strstr(error, "undefined symbol") && strstr(error, "cuMemcpyNonsense"));
  say("no error left: %d\n", dlerror() == nullptr);
  auto init = (CUresult(*)(unsigned))dlsym(library, "cuInit");
  CD(init(0));
  auto get = (CUresult(*)(const char*, void**, int, cuuint64_t))dlsym(library, "cuGetProcAddress");
  auto get2 = (CUresult(*)(const char*, void**, int, cuuint64_t,
                           CUdriverProcAddressQueryResult*))dlsym(library, "cuGetProcAddress_v2");
  void* f = (void*)1;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult r = get2("cuMemcpyNonsense", &f, 13000, 0, &status);
  say("nonsense: %s %d %d\n", D(r), (int)status, f == nullptr);
  f = (void*)1;
  r = get2("cuMemcpyBatchAsync", &f, 12000, 0, &status);
  say("too old: %s %d %d\n", D(r), (int)status, f == nullptr);
  say("bad flags: %s\n", D(get2("cuMemcpyHtoD", &f, 13000, 64, &status)));
  CUdevice device;
  CUcontext context;
  CD(cuDeviceGet(&device, 0));
  CD(cuDevicePrimaryCtxRetain(&context, device));
  CD(cuCtxSetCurrent(context));
  CUdeviceptr d;
  size_t n = 5 * MiB;
  CD(cuMemAlloc(&d, n));
  std::vector<byte> h(n), back(n);
  typedef CUresult (*Up)(CUdeviceptr, const void*, size_t);
  typedef CUresult (*Down)(void*, CUdeviceptr, size_t);
  typedef CUresult (*UpAsync)(CUdeviceptr, const void*, size_t, CUstream);
  typedef CUresult (*Any)(CUdeviceptr, CUdeviceptr, size_t);
  int i = 0;
  auto round = [&](const char* name, void* up, void* down) {
    if (!up || !down) {
      say("%s: not there\n", name);
      return;
    }
    fill(h.data(), n, i++);
    memset(back.data(), 0, n);
    CD(((Up)up)(d, h.data(), n));
    CD(((Down)down)(back.data(), d, n));
    say("%s: ", name);
    is("bytes", back == h);
  };
  round("dlsym", dlsym(library, "cuMemcpyHtoD_v2"), dlsym(library, "cuMemcpyDtoH_v2"));
  round("dlsym, per thread", dlsym(library, "cuMemcpyHtoD_v2_ptds"),
        dlsym(library, "cuMemcpyDtoH_v2_ptds"));
  round("dlsym of the process", dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2"),
        dlsym(RTLD_DEFAULT, "cuMemcpyDtoH_v2"));
  for (cuuint64_t flags : {(cuuint64_t)0, (cuuint64_t)CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                           (cuuint64_t)CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM})
    for (int version : {3020, 7000, 12000, 13000}) {
      void *up = nullptr, *down = nullptr;
      CUresult ru = get("cuMemcpyHtoD", &up, version, flags),
               rd = get2("cuMemcpyDtoH", &down, version, flags, &status);
      say("version %d flags %d: %s %s %d ", version, (int)flags, D(ru), D(rd), (int)status);
      if (ru == CUDA_SUCCESS && rd == CUDA_SUCCESS)
        round("proc", up, down);
      else
        say("\n");
    }
  void* again = nullptr;  // the getter, got by itself
  r = get2("cuGetProcAddress", &again, 12000, 0, &status);
  say("getter: %s\n", D(r));
  if (again) {
    void *up = nullptr, *down = nullptr;
    ((decltype(get2))again)("cuMemcpyHtoD", &up, 12000, 0, &status);
    ((decltype(get2))again)("cuMemcpyDtoH", &down, 12000, 0, nullptr);
    round("by the getter's getter", up, down);
  }
  void *any = nullptr, *up_async = nullptr;
  CD(get2("cuMemcpy", &any, 12000, 0, &status));
  CD(get2("cuMemcpyHtoDAsync", &up_async, 12000, 0, &status));
  fill(h.data(), n, 90);
  CD(((UpAsync)up_async)(d, h.data(), n, nullptr));
  CD(((Any)any)((CUdeviceptr)back.data(), d, n));
  is("cuMemcpy", back == h);
  typedef CUresult (*Export)(const void**, const CUuuid*);
  CUuuid id;
  memset(&id, 7, sizeof id);
  const void* table = nullptr;
  auto export_table = (Export)dlsym(library, "cuGetExportTable");
  say("no such table: %d\n", export_table(&table, &id) != CUDA_SUCCESS);
  say("dlclose: %d\n", dlclose(library));
  CD(cuMemcpyDtoH(back.data(), d, n));
  is("after dlclose", back == h);
  void* deep = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND);
  if (deep) round("deep", dlsym(deep, "cuMemcpyHtoD_v2"), dlsym(deep, "cuMemcpyDtoH_v2"));
  void* self = dlopen(nullptr, RTLD_NOW);
  if (self) round("the program's", dlsym(self, "cuMemcpyHtoD_v2"), dlsym(self, "cuMemcpyDtoH_v2"));
  say("own function: %d\n", dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v9") == nullptr);
  say("no place: %s\n", D(get2("cuMemcpy", nullptr, 13000, 0, &status)));
  say("no name: %s\n", D(get2(nullptr, &f, 13000, 0, &status)));
  return done();
}
static int c_wrapped(int argc,
                     char** argv) {  // the program's own LD_PRELOAD, in front of what is there
  if (argc < 3 || strcmp(argv[2], "inner")) {
    char exe[4096];
    ssize_t k = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (k <= 0) return 3;
    exe[k] = 0;
    std::string wrap = std::string(exe).substr(0, std::string(exe).rfind('/')) + "/libpreloaded.so";
    const char* before = getenv("LD_PRELOAD");
    std::string all = wrap + (before && *before ? std::string(":") + before : "");
    setenv("LD_PRELOAD", all.c_str(), 1);
    char* args[] = {argv[0], (char*)"wrapped", (char*)"inner", nullptr};
    execv(exe, args);
    return 3;
  }
  auto count = (int (*)(int))dlsym(RTLD_DEFAULT, "wrap_count");
  say("wrapper there: %d\n", count != nullptr);
  if (!count) return 1;
  CD(cuInit(0));
  CUdevice device;
  CUcontext context;
  CD(cuDeviceGet(&device, 0));
  CD(cuDevicePrimaryCtxRetain(&context, device));
  CD(cuCtxSetCurrent(context));
  CUdeviceptr d;
  size_t n = 5 * MiB;
  CD(cuMemAlloc(&d, n));
  std::vector<byte> h(n), back(n);
  fill(h.data(), n, 1);
  for (int i = 0; i < 5; i++) {
    CD(cuMemcpyHtoD(d, h.data(), i % 2 ? n : 1000));
    CD(cuMemcpyDtoH(back.data(), d, n));
  }
  is("bytes", csum(back.data(), 1000) == csum(h.data(), 1000) && back == h);
  say("wrapper's own: to %d, from %d, getpid %d\n", count(0), count(1), (getppid(), count(2)));
  say("getter by the wrapper: %d\n", count(3));
  return done();
}

// ---------------------------------------------------------------- processes
static char g_exe[4096];
static int c_hello() {
  size_t n = 5 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  fill(h, n, 42);
  CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(back, d, n, cudaMemcpyDeviceToHost));
  say("hello %016llx\n", csum(back, n));
  return 4;
}
static int c_fork() {
  size_t n = 5 * MiB;
  int code = 0;
  children({{"before CUDA", [] { c_hello(); }}, {"second", [] { c_hello(); }}});
  std::vector<byte> h(n), old(n);
  fill(h.data(), n, 1);
  old = h;
  byte *d = dev(n), *back = anon(n);
  CK(cudaMemcpy(d, h.data(), n, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(back, d, n, cudaMemcpyDeviceToHost));
  // a child keeps what it had, whatever the parent copies after
  int go[2];
  if (pipe(go)) return 3;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    close(go[1]);
    char c;
    alarm(12);
    if (read(go[0], &c, 1) < 0) _exit(3);
    bool same = csum(back, n) == psum(n, 1) && memcmp(h.data(), old.data(), n) == 0;
    memset(h.data(), 0xCC, n);  // its own
    memset(back, 0xCC, n);
    _exit(same ? 11 : 12);
  }
  fill(h.data(), n, 2);
  CK(cudaMemcpy(d, h.data(), n, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(back, d, n, cudaMemcpyDeviceToHost));
  close(go[1]);
  int status;
  waitpid(child, &status, 0);
  say("child without CUDA: exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  is("parent", csum(back, n) == psum(n, 2));
  // CUDA in a child of a process that has used it
  children({{"copy in a child",
             [&] {
               say("%s ", N(cudaMemcpy(d, h.data(), n, cudaMemcpyHostToDevice)));
               say("%s ", N(cudaMemcpy(h.data(), d, n, cudaMemcpyDeviceToHost)));
             }},
            {"tiny copy in a child",
             [&] { say("%s ", N(cudaMemcpy(d, h.data(), 100, cudaMemcpyHostToDevice))); }},
            {"malloc in a child", [&] {
               void* p;
               say("%s ", N(cudaMalloc(&p, 100)));
             }}});
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(6);
    exit(9);  // handlers and destructors run in the child
  }
  waitpid(child, &status, 0);
  say("child that exits: %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  // forks while threads copy
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&, t] {
      byte* e = dev(n);
      std::vector<byte> x(n), y(n);
      cudaStream_t s = stream();
      while (!stop) {
        fill(x.data(), n, t);
        CK(cudaMemcpyAsync(e, x.data(), n, cudaMemcpyHostToDevice, s));
        memset(x.data(), 0, n);
        CK(cudaMemcpyAsync(y.data(), e, n, cudaMemcpyDeviceToHost, s));
        bad += csum(y.data(), n) != psum(n, t);
      }
    });
  int sum = 0;
  for (int i = 0; i < 8; i++) {
    pid_t p = fork();
    if (p == 0) {
      alarm(6);
      void* m = malloc(MiB);
      memset(m, 1, MiB);
      free(m);
      _exit(i);
    }
    waitpid(p, &status, 0);
    sum += WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  say("children that exit: %d\n", sum);
  code = system("exit 7");
  say("system: %d\n", WEXITSTATUS(code));
  pid_t v = vfork();
  if (v == 0) {
    execl("/bin/sh", "sh", "-c", "exit 8", (char*)nullptr);
    _exit(1);
  }
  waitpid(v, &status, 0);
  say("vfork: %d\n", WEXITSTATUS(status));
  FILE* pipe_ = popen("echo through a pipe", "r");
  char line[100] = "";
  if (pipe_ && fgets(line, sizeof line, pipe_)) say("popen: %s", line);
  if (pipe_) say("pclose: %d\n", pclose(pipe_));
  stop = true;
  for (auto& t : threads) t.join();
  is("threads that copied", bad == 0);
  say("no children left: %d\n", waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
  return done();
}
static int c_exec(int argc, char** argv) {
  if (argc > 2) {
    say("again: %d arguments\n", argc);
    for (int i = 2; i < argc; i++) say("'%s'\n", argv[i]);
    int code = c_hello();
    say("open: %d\n", (int)(fcntl(9, F_GETFD) >= 0));
    return code + 5;
  }
  c_hello();
  if (dup2(1, 9) < 0) return 3;
  char* args[] = {(char*)"other name", (char*)"exec",   (char*)"", (char*)"a b\n\"$x",
                  (char*)"--",         (char*)"--from", nullptr};
  char* const spawned[] = {argv[0], (char*)"hello", nullptr};
  pid_t pid;
  int status = -1;
  posix_spawn(&pid, g_exe, nullptr, nullptr, spawned, environ);
  waitpid(pid, &status, 0);
  say("spawned: %d\n", WEXITSTATUS(status));
  // without the environment, as env -i does it
  pid = fork();
  if (pid == 0) {
    char* bare[] = {(char*)"PATH=/usr/bin:/bin", nullptr};
    execve(g_exe, spawned, bare);
    _exit(9);
  }
  waitpid(pid, &status, 0);
  say("bare: %d\n", WEXITSTATUS(status));
  execv(g_exe, args);
  return 3;
}
static int c_state(int argc, char** argv) {  // what a program can see of how it was started
  say("arguments: %d", argc);
  for (int i = 1; i < argc; i++) say(" '%s'", argv[i]);
  say("\n");
  for (int s = 1; s <= 64; s++) {
    struct sigaction act;
    if (sigaction(s, nullptr, &act)) continue;
    if (act.sa_handler != SIG_DFL)
      say("signal %d is not default: %s\n", s, act.sa_handler == SIG_IGN ? "ignored" : "handled");
  }
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  for (int s = 1; s <= 64; s++)
    if (sigismember(&mask, s) == 1) say("signal %d is blocked\n", s);
  const int limits[] = {RLIMIT_CPU,   RLIMIT_FSIZE,      RLIMIT_DATA,     RLIMIT_STACK,
                        RLIMIT_CORE,  RLIMIT_NPROC,      RLIMIT_NOFILE,   RLIMIT_MEMLOCK,
                        RLIMIT_AS,    RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE,
                        RLIMIT_RTPRIO};
  for (int l : limits) {
    struct rlimit r;
    getrlimit((__rlimit_resource_t)l, &r);
    say("limit %d: %llu %llu\n", l, (u64)r.rlim_cur, (u64)r.rlim_max);
  }
  mode_t m = umask(022);
  say("umask %o nice %d policy %d\n", (unsigned)m, getpriority(PRIO_PROCESS, 0),
      sched_getscheduler(0));
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  say("cpus %d\n", CPU_COUNT(&cpus));
  char cwd[4096];
  say("cwd %s\n", getcwd(cwd, sizeof cwd));
  std::vector<std::string> names;
  for (char** e = environ; *e; e++) {
    std::string name(*e, strcspn(*e, "="));
    if (name == "LD_PRELOAD" || name.rfind("LANESCOPE", 0) == 0 || name == "HOSTILE_CASE" ||
        name == "_")
      continue;
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (auto& name : names) say("environment %s\n", name.c_str());
  std::vector<int> fds;
  DIR* dir = opendir("/proc/self/fd");
  while (struct dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
      fds.push_back(atoi(entry->d_name));
  closedir(dir);
  std::sort(fds.begin(), fds.end());
  say("descriptors:");
  for (int fd : fds) say(" %d", fd);
  say("\ntty: %d %d %d\n", isatty(0), isatty(1), isatty(2));
  u64 in = 0;
  size_t bytes = 0;
  int c;
  while ((c = getchar()) != EOF) {
    in = in * 31 + (u64)c;
    bytes++;
  }
  say("input: %zu bytes %016llx\n", bytes, in);
  say("no new privileges %d dumpable %d keep capabilities %d death signal ",
      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS));
  int death = 0;
  prctl(PR_GET_PDEATHSIG, &death);
  say("%d\n", death);
  char name[32] = "";
  prctl(PR_GET_NAME, name);
  say("name %s\n", name);
  size_t n = 8 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n);
  fill(h, n, 1);
  for (int i = 0; i < 4; i++) {
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
  }
  cpu_set_t after;  // and nothing of it changed by copies
  sched_getaffinity(0, sizeof after, &after);
  say("same cpus after: %d\n", CPU_EQUAL(&cpus, &after) != 0);
  sigset_t mask2;
  sigprocmask(SIG_SETMASK, nullptr, &mask2);
  bool same = true;
  for (int s = 1; s <= 64; s++) same &= sigismember(&mask, s) == sigismember(&mask2, s);
  say("same mask after: %d\n", same);
  for (int s = 1; s <= 64; s++) {
    struct sigaction act;
    if (sigaction(s, nullptr, &act)) continue;
    if (act.sa_handler != SIG_DFL)
      say("signal %d is not default after: %s\n", s,
          act.sa_handler == SIG_IGN ? "ignored" : "handled");
  }
  struct rlimit r;
  getrlimit(RLIMIT_NOFILE, &r);
  say("limit of files after: %llu\n", (u64)r.rlim_cur);
  say("umask after %o nice %d policy %d\n", (unsigned)umask(m), getpriority(PRIO_PROCESS, 0),
      sched_getscheduler(0));
  say("no children: %d\n", waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
  say("error number kept: %d\n",
      (errno = 77, (void)cudaMemcpy(d, h, n, cudaMemcpyHostToDevice), errno == 77));
  return 0;
}

// ---------------------------------------------------------------- signals
static std::atomic<int> g_ticks{0}, g_elsewhere{0};
static void tick(int) {
  g_ticks++;
  if (tid() != g_main) g_elsewhere++;
}
static int c_timers() {
  warm();
  g_main = tid();
  Summer sum;
  size_t n = 40 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  cudaStream_t s = stream();
  for (int restart = 0; restart < 2; restart++) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = tick;
    act.sa_flags = restart ? SA_RESTART : 0;
    sigaction(SIGALRM, &act, nullptr);
    sigaction(SIGPROF, &act, nullptr);
    struct itimerval often = {{0, 400}, {0, 400}}, never = {{0, 0}, {0, 0}};
    g_ticks = 0;
    setitimer(ITIMER_REAL, &often, nullptr);
    setitimer(ITIMER_PROF, &often, nullptr);
    bool ok = true;
    for (int i = 0; i < 8; i++) {
      fill(h, n, i);
      ok &= cudaMemcpy(d, h, n, cudaMemcpyHostToDevice) == cudaSuccess;
      ok &= cudaMemcpyAsync(back, d, n, cudaMemcpyDeviceToHost, s) == cudaSuccess;
      ok &= csum(back, n) == csum(h, n);
      ok &= cudaMemcpyAsync(d, back + 1, n - 1, cudaMemcpyHostToDevice, s) == cudaSuccess;
      ok &= cudaStreamSynchronize(s) == cudaSuccess;
    }
    setitimer(ITIMER_REAL, &never, nullptr);
    setitimer(ITIMER_PROF, &never, nullptr);
    say("SA_RESTART %d, ticks came: %d\n", restart, g_ticks > 20);
    is("copies", ok);
  }
  // a timer that interrupts a read is still noticed
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = tick;
  sigaction(SIGALRM, &act, nullptr);
  int ends[2];
  if (pipe(ends)) return 3;
  for (int i = 0; i < 3; i++) {
    struct itimerval once = {{0, 0}, {0, 50000}};
    setitimer(ITIMER_REAL, &once, nullptr);
    struct pollfd one = {ends[0], POLLIN, 0};
    int r = poll(&one, 1, 1500);
    say("poll: %d %s\n", r, r < 0 ? error_name(errno) : "");
  }
  return done();
}
static int
c_signal_wait() {  // signals of the process that its threads block must not reach threads of others
  g_main = tid();
  size_t n = 16 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n);
  fill(h, n, 1);
  for (int i = 0; i < 3; i++) {  // all threads there are begin now
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
  }
  for (int i = 0; i < 20; i++)
    CK(cudaMemcpyAsync(d + i * 64, h, 64, cudaMemcpyHostToDevice, cudaStreamPerThread));
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = tick;
  const int numbers[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGRTMIN + 5};
  sigset_t set;
  sigemptyset(&set);
  for (int s : numbers) {
    sigaction(s, &act, nullptr);
    sigaddset(&set, s);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  for (int s : numbers) {
    g_ticks = 0;
    kill(getpid(), s);
    CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    struct timespec limit = {1, 0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, s);
    int got = sigtimedwait(&one, nullptr, &limit);
    say("got it: %d, handlers that ran: %d, pending: %d\n", got == s, g_ticks.load(), got < 0);
  }
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  // a handler with an alternative stack
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = malloc(65536);
  stack.ss_size = 65536;
  sigaltstack(&stack, nullptr);
  act.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &act, nullptr);
  g_ticks = 0;
  raise(SIGUSR1);
  say("raised: %d\n", g_ticks.load());
  return done();
}
static int c_stop_continue() {  // stopped and continued amid copies
  size_t n = 32 * MiB;
  byte *d = dev(n), *h = (byte*)malloc(n), *back = (byte*)malloc(n);
  pid_t parent = getpid(), helper = fork();
  if (helper == 0) {
    for (int i = 0; i < 5; i++) {
      usleep(30000);
      kill(parent, SIGSTOP);
      usleep(20000);
      kill(parent, SIGCONT);
    }
    _exit(0);
  }
  bool ok = true;
  int status = 0, rounds = 0;
  while (waitpid(helper, &status, WNOHANG) == 0) {
    fill(h, n, rounds++);
    ok &= cudaMemcpy(d, h, n, cudaMemcpyHostToDevice) == cudaSuccess;
    ok &= cudaMemcpy(back, d, n, cudaMemcpyDeviceToHost) == cudaSuccess;
    ok &= memcmp(h, back, n) == 0;
  }
  is("stopped five times", ok && rounds > 0);
  return done();
}

// ---------------------------------------------------------------- limits, descriptors, rights
static int copies_after(const char* what, size_t n = 24 * MiB) {
  static byte* d = nullptr;
  static Summer* sum = nullptr;
  if (!d) {
    d = dev(64 * MiB);
    sum = new Summer;
    byte* small = (byte*)malloc(4096);
    CK(cudaMemcpy(d, small, 4096, cudaMemcpyHostToDevice));
    (*sum)(d, 4096, 0);
  }
  if (!what) return 0;
  static byte* h = (byte*)malloc(64 * MiB);
  fill(h, n, n);
  cudaError_t up = cudaMemcpy(d, h, n, cudaMemcpyHostToDevice);
  bool there = (*sum)(d, n, 0) == psum(n, n);
  memset(h, 0, n);
  cudaError_t down = cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);
  bool back = csum(h, n) == psum(n, n);
  for (int i = 0; i < 20; i++)
    cudaMemcpyAsync(d + i * 50, h + i * 50, 50, cudaMemcpyHostToDevice, cudaStreamPerThread);
  cudaError_t wait = cudaDeviceSynchronize();
  say("%s: %s %s %s ", what, N(up), N(down), N(wait));
  is("bytes", there && back);
  return 0;
}
static int c_limit_memory() {
  copies_after(nullptr);
  size_t pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%zu", &pages) != 1) return 3;
  fclose(f);
  struct rlimit r = {pages * 4096 + 160 * MiB, RLIM_INFINITY};
  say("limit: %d\n", setrlimit(RLIMIT_AS, &r));
  copies_after("little address space");
  copies_after("again");
  return done();
}
static int c_limit_locked() {
  struct rlimit r = {0, 0};
  say("limit: %d\n", setrlimit(RLIMIT_MEMLOCK, &r));
  copies_after(nullptr);
  copies_after("no locked memory");
  return done();
}
static int c_limit_files() {
  copies_after(nullptr);
  struct rlimit r = {3, 3};
  say("limit: %d\n", setrlimit(RLIMIT_NOFILE, &r));
  copies_after("no more files");
  int fd = open("/dev/null", O_RDONLY);
  say("open: %s\n", fd < 0 ? error_name(errno) : "opened");
  return done();
}
static int c_limit_size() {  // SIGXFSZ for whoever writes files here
  no_core();
  struct rlimit r = {0, 0};
  say("limit: %d\n", setrlimit(RLIMIT_FSIZE, &r));
  copies_after(nullptr);
  copies_after("no files to be written");
  return done();
}
static int c_limit_threads() {  // no thread can begin
  copies_after(nullptr);
  struct rlimit r = {0, 0};
  int e = setrlimit(RLIMIT_NPROC, &r);
  say("limit: %d\n", e);
  int group = setgid(65534), user = setuid(65534);
  say("nobody: %d %d\n", group, user);
  copies_after("no more threads");
  pthread_t t;
  int error = pthread_create(&t, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  say("thread: %s\n", error ? error_name(error) : "began");
  return done();
}
static void close_all() {
  std::vector<int> fds;
  DIR* dir = opendir("/proc/self/fd");
  while (struct dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') fds.push_back(atoi(entry->d_name));
  closedir(dir);
  for (int fd : fds)
    if (fd > 2) close(fd);
}
static int c_close_first() {  // as daemons do
  close_all();
  copies_after(nullptr);
  copies_after("all closed before");
  int low = open("/dev/null", O_WRONLY);
  say("opened: %d\n", low >= 0);
  return done();
}
static int c_close_amid() {  // after CUDA began: cruel, and by the driver survivable or not
  alarm(8);
  copies_after(nullptr);
  close_all();
  int fds[40];
  for (int& fd : fds) fd = open("/dev/null", O_WRONLY);  // the numbers are others' now
  copies_after("all closed amid", 8 * MiB);
  return done();
}
static int c_daemon() {
  // child of a child in a session of its own; the first process waits for the word of the last
  int ends[2];
  if (pipe(ends)) return 3;
  pid_t first = fork();
  if (first == 0) {
    setsid();
    pid_t second = fork();
    if (second > 0) _exit(0);
    alarm(12);
    dup2(ends[1], 1);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    if (chdir("/")) _exit(3);
    umask(0);
    copies_after(nullptr);
    copies_after("daemon");
    exit(0);
  }
  close(ends[1]);
  waitpid(first, nullptr, 0);
  char some[1000];
  ssize_t r;
  while ((r = read(ends[0], some, sizeof some)) > 0) say("%.*s", (int)r, some);
  return done();
}
static int c_dropped() {  // no root directory, no rights, from before the first large copy on
  copies_after(nullptr);
  char name[] = "/tmp/hostile-root-XXXXXX";
  if (!mkdtemp(name)) return 3;
  umask(077);
  int root = chroot(name);
  say("chroot: %s\n", root ? error_name(errno) : "done");
  if (chdir("/")) return 3;
  copies_after("in an empty root", 20 * MiB);
  int groups = setgroups(0, nullptr), group = setgid(65534), user = setuid(65534);
  say("groups %d gid %d uid %d\n", groups, group, user);
  prctl(PR_SET_DUMPABLE, 0);
  copies_after("as nobody", 40 * MiB);
  return done();
}
static int c_one_cpu() {  // all on one CPU, in real time where that is allowed
  cpu_set_t one;
  CPU_ZERO(&one);
  cpu_set_t had;
  sched_getaffinity(0, sizeof had, &had);
  int skip = getpid() % CPU_COUNT(&had);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &had) && skip-- == 0) CPU_SET(i, &one);
  copies_after(nullptr);
  say("one CPU: %d\n", sched_setaffinity(0, sizeof one, &one));
  copies_after("on one CPU", 8 * MiB);
  struct sched_param p;
  memset(&p, 0, sizeof p);
  p.sched_priority = 10;
  int e = sched_setscheduler(0, SCHED_FIFO, &p);
  say("in real time: %s\n", e ? error_name(errno) : "yes");
  for (int i = 0; i < 4; i++) copies_after("in real time", 8 * MiB);
  cpu_set_t after;
  sched_getaffinity(0, sizeof after, &after);
  say("same CPU: %d\n", CPU_EQUAL(&one, &after) != 0);
  return done();
}
static int c_ipc() {
  int to[2], from[2];
  if (pipe(to) || pipe(from)) return 3;
  size_t n = 10 * MiB;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(12);
    close(to[1]);
    close(from[0]);
    cudaIpcMemHandle_t handle;
    if (read(to[0], &handle, sizeof handle) != (ssize_t)sizeof handle) _exit(3);
    byte* p = nullptr;
    cudaError_t e = cudaIpcOpenMemHandle((void**)&p, handle, cudaIpcMemLazyEnablePeerAccess);
    if (e == cudaSuccess) {
      std::vector<byte> h(n), old(n);
      CK(cudaMemcpy(old.data(), p, n, cudaMemcpyDeviceToHost));
      bool ok = csum(old.data(), n) == psum(n, 1);
      fill(h.data(), n, 2);
      CK(cudaMemcpy(p, h.data(), n, cudaMemcpyHostToDevice));
      CK(cudaDeviceSynchronize());
      e = ok ? cudaIpcCloseMemHandle(p) : cudaErrorUnknown;
    }
    if (write(from[1], &e, sizeof e) < 0) _exit(4);
    _exit(0);
  }
  close(to[0]);
  close(from[1]);
  byte *d = dev(n), *h = (byte*)malloc(n);
  fill(h, n, 1);
  CK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
  CK(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  cudaError_t e = cudaIpcGetMemHandle(&handle, d);
  say("handle: %s\n", N(e));
  if (e == cudaSuccess && write(to[1], &handle, sizeof handle) < 0) return 3;
  close(to[1]);
  cudaError_t answer = cudaErrorUnknown;
  if (read(from[0], &answer, sizeof answer) < 0) return 3;
  waitpid(child, nullptr, 0);
  say("other process: %s\n", N(answer));
  if (answer == cudaSuccess) {
    CK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
    is("its bytes", csum(h, n) == psum(n, 2));
  }
  return done();
}

// ---------------------------------------------------------------- ends
static byte *g_end_d, *g_end_h;
static const size_t END = 12 * MiB;
static void end_setup() {
  g_end_d = dev(END);
  g_end_h = (byte*)malloc(END);
  fill(g_end_h, END, 1);
  CK(cudaMemcpy(g_end_d, g_end_h, END, cudaMemcpyHostToDevice));
}
static void end_copy(const char* when) {
  say("%s: ", when);
  cudaError_t up = cudaMemcpy(g_end_d, g_end_h, END, cudaMemcpyHostToDevice);
  cudaError_t down = cudaMemcpy(g_end_h, g_end_d, END, cudaMemcpyDeviceToHost);
  cudaError_t tiny =
      cudaMemcpyAsync(g_end_d, g_end_h, 100, cudaMemcpyHostToDevice, cudaStreamPerThread);
  say("%s %s %s, bytes %d\n", N(up), N(down), N(tiny), csum(g_end_h, END) == psum(END, 1));
}
static int c_end_handler() {  // after main: a handler made after CUDA began
  end_setup();
  atexit([] { end_copy("handler made after"); });
  exit(21);
}
static int c_end_handler_early() {  // and one that was made before
  atexit([] { end_copy("handler made before"); });
  end_setup();
  exit(22);
}
static std::atomic<int> g_running{0};
static void copier() {
  std::thread([] {
    byte* d = dev(END);
    std::vector<byte> h(END);
    for (;;) {
      if (cudaMemcpy(d, h.data(), END, cudaMemcpyHostToDevice) != cudaSuccess) break;
      if (cudaMemcpy(h.data(), d, END, cudaMemcpyDeviceToHost) != cudaSuccess) break;
      g_running++;
    }
    for (;;) pause();
  }).detach();
  while (g_running < 3) usleep(1000);
}
static void end_amid_copies() {
  end_setup();
  copier();
  say("ends\n");
}
static int c_end_at_once() {
  end_amid_copies();
  _exit(23);
}
static int c_end_quick() {
  end_amid_copies();
  quick_exit(24);
}
static int c_end_term() {
  end_amid_copies();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
static int c_end_kill() {
  end_amid_copies();
  kill(getpid(), SIGKILL);
  for (;;) pause();
}
static int c_end_abort() {
  no_core();
  end_amid_copies();
  abort();
}
static int c_end_main_thread() {  // the main thread ends, another one goes on and ends the process
  end_setup();
  static std::atomic<int> rounds{0};
  std::thread([] {
    usleep(50000);
    for (int i = 0; i < 5; i++) {
      CK(cudaMemcpy(g_end_d, g_end_h, END, cudaMemcpyHostToDevice));
      memset(g_end_h, 0, END);
      CK(cudaMemcpy(g_end_h, g_end_d, END, cudaMemcpyDeviceToHost));
      rounds++;
    }
    say("rounds %d bytes %d\n", rounds.load(), csum(g_end_h, END) == psum(END, 1));
    exit(26);
  }).detach();
  pthread_exit(nullptr);
}
static int
c_end_tiny() {  // tiny copies are the last thing, and the end waits for them as by the driver
  warm();
  Summer sum;
  cudaStream_t s = stream();
  byte *d = dev(64 * KiB), h[1024];
  fill(h, 1024, 1);
  for (int i = 0; i < 60; i++)
    CK(cudaMemcpyAsync(d + i * 1024, h, 1024, cudaMemcpyHostToDevice, s));
  CK(cudaStreamSynchronize(s));
  is("seen by another stream after the wait", sum(d + 59 * 1024, 1024, 0) == psum(1024, 1));
  for (int i = 0; i < 60; i++)
    CK(cudaMemcpyAsync(d + i * 1024, h, 1024, cudaMemcpyHostToDevice, s));
  exit(27);
}

// ----------------------------------------------------------------
struct Case {
  const char* name;
  int (*plain)();
  int (*with)(int, char**);
};
static const Case CASES[] = {
    {"sizes", c_sizes, nullptr},
    {"sizes_async", c_sizes_async, nullptr},
    {"fuzz_tiny", c_fuzz_tiny, nullptr},
    {"fuzz_big", c_fuzz_big, nullptr},
    {"fuzz_threads", c_fuzz_threads, nullptr},
    {"storm", c_storm, nullptr},
    {"thread_exit", c_thread_exit, nullptr},
    {"cancel", c_cancel, nullptr},
    {"reuse_source", c_reuse_source, nullptr},
    {"chain", c_chain, nullptr},
    {"default_streams", c_default_streams, nullptr},
    {"no_wait", c_no_wait, nullptr},
    {"small_no_wait", c_small_no_wait, nullptr},
    {"poll_tiny", c_poll_tiny, nullptr},
    {"destroy", c_destroy, nullptr},
    {"shapes", c_shapes, nullptr},
    {"batch_call", c_batch_call, nullptr},
    {"host_kinds", c_host_kinds, nullptr},
    {"guard", c_guard, nullptr},
    {"lazy_pages", c_lazy_pages, nullptr},
    {"read_only_target", c_read_only_target, nullptr},
    {"beyond_file", c_beyond_file, nullptr},
    {"hole_source", c_hole_source, nullptr},
    {"hole_target", c_hole_target, nullptr},
    {"errors", c_errors, nullptr},
    {"wild", c_wild, nullptr},
    {"sticky_assert", c_sticky_assert, nullptr},
    {"sticky_address", c_sticky_address, nullptr},
    {"capture", c_capture, nullptr},
    {"capture_global", c_capture_global, nullptr},
    {"capture_local", c_capture_local, nullptr},
    {"host_function", c_host_function, nullptr},
    {"pinned_order", c_pinned_order, nullptr},
    {"managed", c_managed, nullptr},
    {"contexts", c_contexts, nullptr},
    {"reset", c_reset, nullptr},
    {"vmm", c_vmm, nullptr},
    {"by_hand", c_by_hand, nullptr},
    {"wrapped", nullptr, c_wrapped},
    {"hello", c_hello, nullptr},
    {"fork", c_fork, nullptr},
    {"exec", nullptr, c_exec},
    {"state", nullptr, c_state},
    {"timers", c_timers, nullptr},
    {"signal_wait", c_signal_wait, nullptr},
    {"stop_continue", c_stop_continue, nullptr},
    {"limit_memory", c_limit_memory, nullptr},
    {"limit_locked", c_limit_locked, nullptr},
    {"limit_files", c_limit_files, nullptr},
    {"limit_size", c_limit_size, nullptr},
    {"limit_threads", c_limit_threads, nullptr},
    {"close_first", c_close_first, nullptr},
    {"close_amid", c_close_amid, nullptr},
    {"daemon", c_daemon, nullptr},
    {"dropped", c_dropped, nullptr},
    {"one_cpu", c_one_cpu, nullptr},
    {"ipc", c_ipc, nullptr},
    {"end_handler", c_end_handler, nullptr},
    {"end_handler_early", c_end_handler_early, nullptr},
    {"end_at_once", c_end_at_once, nullptr},
    {"end_quick", c_end_quick, nullptr},
    {"end_term", c_end_term, nullptr},
    {"end_kill", c_end_kill, nullptr},
    {"end_abort", c_end_abort, nullptr},
    {"end_main_thread", c_end_main_thread, nullptr},
    {"end_tiny", c_end_tiny, nullptr},
};
int main(int argc, char** argv) {
  ssize_t k = readlink("/proc/self/exe", g_exe, sizeof g_exe - 1);
  if (k > 0) g_exe[k] = 0;
  if (argc > 1 && !strcmp(argv[1], "list")) {
    for (auto& c : CASES) printf("%s\n", c.name);
    return 0;
  }
  for (auto& c : CASES)
    if (argc > 1 && !strcmp(argv[1], c.name)) return c.plain ? c.plain() : c.with(argc, argv);
  fprintf(stderr, "hostile list\n");
  return 64;
}
