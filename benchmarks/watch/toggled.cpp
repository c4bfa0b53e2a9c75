// Loaded into a program by CUDA's driver (CUDA_INJECTION64_PATH): turns CUPTI on and off while the
// program runs, and writes when it did so to TOGGLED_LOG. See toggled.py.
//
//   g++ -O2 -fPIC -shared -I/usr/local/cuda/include -I/usr/local/cuda/extras/CUPTI/include
//       benchmarks/watch/toggled.cpp -o toggled.so -ldl -lpthread
#include <cupti.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr std::size_t kBufferBytes = 64 << 10;
std::string kinds;  // of TOGGLED_KINDS, with a comma on both sides
void* cupti;
CUpti_SubscriberHandle subscriber;

template <class Function>
Function* found(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(cupti, name));
}
#define CUPTI(name) found(&::name, #name)

bool wants(const char* kind) {
  return kinds.find("," + std::string(kind) + ",") != std::string::npos;
}

unsigned long long now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000ULL + now.tv_nsec;
}

void called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void lend(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::calloc(1, kBufferBytes));
  *size = kBufferBytes;
  *records = 0;
}

void take(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  std::free(buffer);
}

constexpr int kDriverCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2};
constexpr int kRuntimeCalls[] = {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
                                 CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020};

void set_callbacks(bool on) {
  if (!on) {
    CUPTI(cuptiUnsubscribe)(subscriber);
    return;
  }
  CUPTI(cuptiSubscribe)(&subscriber, called, nullptr);
  for (const int call : kDriverCalls)
    CUPTI(cuptiEnableCallback)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call);
}

void set_activities(bool on) {
  const auto set = on ? CUPTI(cuptiActivityEnable) : CUPTI(cuptiActivityDisable);
  if (on) CUPTI(cuptiActivityRegisterCallbacks)(lend, take);
  if (wants("copy")) {
    set(CUPTI_ACTIVITY_KIND_MEMCPY);
    set(CUPTI_ACTIVITY_KIND_MEMCPY2);
  }
  if (wants("memset")) set(CUPTI_ACTIVITY_KIND_MEMSET);
  if (wants("driver"))
    for (const int call : kDriverCalls) CUPTI(cuptiActivityEnableDriverApi)(call, on);
  if (wants("runtime"))
    for (const int call : kRuntimeCalls) CUPTI(cuptiActivityEnableRuntimeApi)(call, on);
  if (on) return;
  CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (wants("finalize")) CUPTI(cuptiFinalize)();
}

void toggle_for_ever() {
  const long first_ms = std::atol(std::getenv("TOGGLED_FIRST_MS"));
  const long each_ms = std::atol(std::getenv("TOGGLED_EACH_MS"));
  std::FILE* log = std::fopen(std::getenv("TOGGLED_LOG"), "w");
  usleep(first_ms * 1000);
  for (const char* name : {"libcupti.so.14", "libcupti.so.13", "libcupti.so.12"})
    if ((cupti = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) != nullptr) break;
  if (cupti == nullptr) cupti = dlopen("/usr/local/cuda/lib64/libcupti.so", RTLD_NOW);
  for (bool on = true;; on = !on) {
    const auto begun = now_ns();
    wants("callbacks") ? set_callbacks(on) : set_activities(on);
    std::fprintf(log, "%llu %llu %d\n", begun, now_ns(), on ? 1 : 0);
    std::fflush(log);
    usleep(each_ms * 1000);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  const char* named = std::getenv("TOGGLED_KINDS");
  if (named == nullptr) return 1;
  kinds = "," + std::string(named) + ",";
  std::thread(toggle_for_ever).detach();
  return 1;
}
