// A libcuda.so.1 for tests, which says what kind of memory an address is of, and copies nothing:
// all is pageable but one range that a test program says is pinned, and the memories of two GPUs, 1
// TiB each, from kDevice on.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { kSuccess = 0, kInvalidValue = 1 };
enum { kMemoryType = 2, kIsManaged = 8, kOrdinal = 9, kRangeStart = 11, kRangeSize = 12 };
enum { kHost = 1, kOfGpu = 2 };
constexpr std::uint64_t kDevice = 1ULL << 46;
constexpr int kGpuBits = 40;

std::uint64_t pinned, pinned_bytes;
unsigned pinned_flags;

bool is_pinned(std::uint64_t address) {
  return address - pinned < pinned_bytes;
}

}  // namespace

/// `flags`: those of cuMemHostAlloc.
API void mock_pinned(std::uint64_t address, std::uint64_t bytes, unsigned flags) {
  pinned = address;
  pinned_bytes = bytes;
  pinned_flags = flags;
}

API int cuInit(unsigned) {
  return kSuccess;
}

API int cuPointerGetAttribute(void* value, int attribute, std::uint64_t address) {
  if (!is_pinned(address)) return kInvalidValue;
  if (attribute != kMemoryType && attribute != kIsManaged) return kInvalidValue;
  *static_cast<unsigned*>(value) = attribute == kMemoryType ? kHost : 0;
  return kSuccess;
}
// Two GPUs, the one with the higher address first, as CUDA numbers them that is faster.
API int cuDeviceGetCount(int* count) {
  *count = 2;
  return kSuccess;
}
API int cuDeviceGetPCIBusId(char* address, int size, int gpu) {
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02X:00.0", gpu == 0 ? 0xC1 : 0x0A);
  return kSuccess;
}

API int cuMemHostGetFlags(unsigned* flags, void* address) {
  if (!is_pinned(reinterpret_cast<std::uint64_t>(address))) return kInvalidValue;
  *flags = pinned_flags;
  return kSuccess;
}

int lookups = 0;  // of the attributes of an address
API int mock_lookups() {
  return lookups;
}
API int cuPointerGetAttributes(unsigned count, const int* names, void** values,
                               std::uint64_t address) {
  const bool on_gpu = address - kDevice < 2ULL << kGpuBits;
  ++lookups;
  for (unsigned i = 0; i < count; ++i) {
    if (names[i] == kRangeStart || names[i] == kRangeSize) {
      const std::uint64_t begin = address >> kGpuBits << kGpuBits, size = 1ULL << kGpuBits;
      *static_cast<std::uint64_t*>(values[i]) = !on_gpu                   ? 0
                                                : names[i] == kRangeStart ? begin
                                                                          : size;
      continue;
    }
    unsigned found = 0;
    if (names[i] == kMemoryType) found = on_gpu ? kOfGpu : is_pinned(address) ? kHost : 0;
    if (names[i] == kOrdinal)
      found = static_cast<unsigned>(on_gpu ? (address - kDevice) >> kGpuBits : 0);
    *static_cast<unsigned*>(values[i]) = found;
  }
  return kSuccess;
}
API int cuCtxGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
int stream_lookups = 0;
API int mock_stream_lookups() {
  return stream_lookups;
}
API int cuStreamGetId(void* stream, unsigned long long* id) {
  ++stream_lookups;
  *id = reinterpret_cast<std::uintptr_t>(stream) + 100;
  return kSuccess;
}

namespace {

bool capturing = false;
int fails = 0;  // what copies return

}  // namespace

API void mock_fail(int result) {
  fails = result;
}

API int cuMemcpyHtoD_v2(std::uint64_t, const void*, std::size_t) {
  return fails;
}
API int cuMemcpyHtoDAsync_v2(std::uint64_t, const void*, std::size_t, void*) {
  return fails;
}
API int cuMemcpyDtoH_v2(void*, std::uint64_t, std::size_t) {
  return fails;
}
API int cuMemcpyDtoHAsync_v2(void*, std::uint64_t, std::size_t, void*) {
  return fails;
}
API int cuMemcpyDtoHAsync_v2_ptsz(void*, std::uint64_t, std::size_t, void*) {
  return fails;
}
API int cuMemcpyPeerAsync(std::uint64_t, void*, std::uint64_t, void*, std::size_t, void*) {
  return fails;
}
API int cuMemcpy2D_v2(const void*) {
  return fails;
}
API int cuMemcpyBatchAsync(void*, void*, void*, std::size_t, void*, void*, std::size_t, void*,
                           void*) {
  return fails;
}
API int cuMemcpyBatchAsync_v2(void*, void*, void*, std::size_t, void*, void*, std::size_t, void*) {
  return fails;
}
API int cuMemHostRegister_v2(void*, std::size_t, unsigned) {
  return kSuccess;
}
API int cuStreamIsCapturing(void*, int* status) {
  *status = capturing ? 1 : 0;
  return kSuccess;
}
API int cuStreamBeginCapture_v2(void*, int) {
  capturing = true;
  return kSuccess;
}
API int cuStreamEndCapture(void*, void**) {
  capturing = false;
  return kSuccess;
}
API int cuGraphLaunch(void*, void*) {
  return kSuccess;
}

/// What is not recorded.
API int cuLaunchKernel() {
  return kSuccess;
}
API int cuEventRecord() {
  return kSuccess;
}
API int cuStreamSynchronize() {
  return kSuccess;
}

API int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                            void*) {
  const struct {
    const char* name;
    void* function;
  } known[] = {
      {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress_v2)},
      {"cuInit", reinterpret_cast<void*>(&cuInit)},
      {"cuLaunchKernel", reinterpret_cast<void*>(&cuLaunchKernel)},
      {"cuEventRecord", reinterpret_cast<void*>(&cuEventRecord)},
      {"cuStreamSynchronize", reinterpret_cast<void*>(&cuStreamSynchronize)},
      {"cuMemcpyHtoD", reinterpret_cast<void*>(&cuMemcpyHtoD_v2)},
      {"cuMemcpyHtoDAsync", reinterpret_cast<void*>(&cuMemcpyHtoDAsync_v2)},
      {"cuMemcpyBatchAsync", version < 13000 ? reinterpret_cast<void*>(&cuMemcpyBatchAsync)
                                             : reinterpret_cast<void*>(&cuMemcpyBatchAsync_v2)},
      {"cuMemcpyDtoHAsync",
       reinterpret_cast<void*>(flags == 2 ? &cuMemcpyDtoHAsync_v2_ptsz : &cuMemcpyDtoHAsync_v2)},
  };
  for (const auto& one : known)
    if (std::strcmp(one.name, name) == 0) {
      *function = one.function;
      return kSuccess;
    }
  *function = nullptr;
  return kInvalidValue;
}
