#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>

#include "inject/ready.hpp"
#include "intercept/hooks.hpp"
#include "intercept/real_dlsym.hpp"

/// Functions under the driver's own names, for programs that are linked with the driver's library:
/// those do not look them up. Each has the arguments of what stands in its place, which is found at
/// the first call.
namespace lanescope::intercept {

template <class Function>
Function wrapper_of(const char* symbol) noexcept {
  void* next = real_dlsym(RTLD_NEXT, symbol);
  if (next == nullptr) next = driver_symbol(symbol);
  const bool wraps = next != nullptr && is_wanted();
  return reinterpret_cast<Function>(wraps ? wrapped(symbol, next) : next);
}

}  // namespace lanescope::intercept

#define LANESCOPE_EXPORTED(symbol, parameters, arguments)                             \
  extern "C" __attribute__((visibility("default"))) CUresult symbol parameters {      \
    static std::atomic<CUresult(*) parameters> found{nullptr};                        \
    if (found.load() == nullptr) /* the driver may be loaded later */                 \
      found.store(lanescope::intercept::wrapper_of<CUresult(*) parameters>(#symbol)); \
    const auto call = found.load();                                                   \
    return call == nullptr ? CUDA_ERROR_NOT_INITIALIZED : call arguments;             \
  }
// Both with the default stream that all threads share, and with one for each thread.
#define LANESCOPE_EXPORTED_2(symbol, ending, parameters, arguments) \
  LANESCOPE_EXPORTED(symbol, parameters, arguments)                 \
  LANESCOPE_EXPORTED(symbol##ending, parameters, arguments)

// Those that each such library has: copies, captures and the beginning of CUDA.
#define LANESCOPE_EXPORTED_CUDA                                                                    \
  extern "C" __attribute__((visibility("default"))) CUresult cuInit(unsigned flags) {              \
    const auto call = lanescope::intercept::wrapper_of<CUresult (*)(unsigned)>("cuInit");          \
    if (call == nullptr) return CUDA_ERROR_NOT_INITIALIZED;                                        \
    if (lanescope::intercept::is_wanted()) lanescope::inject::wait_until_ready();                  \
    return call(flags);                                                                            \
  }                                                                                                \
  LANESCOPE_EXPORTED_2(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr a, const void* b, size_t c),           \
                       (a, b, c))                                                                  \
  LANESCOPE_EXPORTED_2(cuMemcpyHtoDAsync_v2, _ptsz,                                                \
                       (CUdeviceptr a, const void* b, size_t c, CUstream d), (a, b, c, d))         \
  LANESCOPE_EXPORTED_2(cuMemcpyDtoH_v2, _ptds, (void* a, CUdeviceptr b, size_t c), (a, b, c))      \
  LANESCOPE_EXPORTED_2(cuMemcpyDtoHAsync_v2, _ptsz,                                                \
                       (void* a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))               \
  LANESCOPE_EXPORTED_2(cuMemcpy, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))       \
  LANESCOPE_EXPORTED_2(cuMemcpyAsync, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), \
                       (a, b, c, d))                                                               \
  LANESCOPE_EXPORTED_2(cuStreamBeginCapture_v2, _ptsz, (CUstream a, CUstreamCaptureMode b),        \
                       (a, b))                                                                     \
  LANESCOPE_EXPORTED_2(cuStreamBeginCaptureToGraph, _ptsz,                                         \
                       (CUstream a, CUgraph b, const CUgraphNode* c, const CUgraphEdgeData* d,     \
                        size_t e, CUstreamCaptureMode f),                                          \
                       (a, b, c, d, e, f))                                                         \
  LANESCOPE_EXPORTED_2(cuStreamEndCapture, _ptsz, (CUstream a, CUgraph * b), (a, b))
