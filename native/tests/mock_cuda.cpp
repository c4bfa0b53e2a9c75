// A libcuda.so.1 for tests, which tells what kind of memory an address is of: all is pageable but
// one range that a test program says is pinned.
#include <cstdint>
#include <cstdio>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { kSuccess = 0, kInvalidValue = 1 };
enum { kMemoryType = 2, kIsManaged = 8 };
enum { kHost = 1 };

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
