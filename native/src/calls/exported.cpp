// The calls under their own names, for programs that are linked with the driver's library: those do
// not look them up. Each has the arguments of its wrapper, which is found at the first call.

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>

#include "calls/real_dlsym.hpp"
#include "calls/recorder.hpp"
#include "calls/wrappers.hpp"
#include "inject/ready.hpp"

namespace lanescope::calls {

namespace {

template <class Function>
Function wrapper_of(const char* symbol) noexcept {
  void* next = real_dlsym(RTLD_NEXT, symbol);
  if (next == nullptr) next = driver_symbol(symbol);
  const bool wraps = next != nullptr && is_wanted();
  return reinterpret_cast<Function>(wraps ? wrapped_symbol(symbol, next) : next);
}

}  // namespace

}  // namespace lanescope::calls

#define LANESCOPE_EXPORTED(symbol, parameters, arguments)                         \
  extern "C" __attribute__((visibility("default"))) CUresult symbol parameters {  \
    static std::atomic<CUresult(*) parameters> found{nullptr};                    \
    if (found.load() == nullptr) /* the driver may be loaded later */             \
      found.store(lanescope::calls::wrapper_of<CUresult(*) parameters>(#symbol)); \
    const auto call = found.load();                                               \
    return call == nullptr ? CUDA_ERROR_NOT_INITIALIZED : call arguments;         \
  }
// Both with the default stream that all threads share, and with one for each thread.
#define LANESCOPE_EXPORTED_2(symbol, ending, parameters, arguments) \
  LANESCOPE_EXPORTED(symbol, parameters, arguments)                 \
  LANESCOPE_EXPORTED(symbol##ending, parameters, arguments)

extern "C" __attribute__((visibility("default"))) CUresult cuInit(unsigned flags) {
  const auto call = lanescope::calls::wrapper_of<CUresult (*)(unsigned)>("cuInit");
  if (call == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (lanescope::calls::is_wanted()) lanescope::inject::wait_until_ready();
  return call(flags);
}
LANESCOPE_EXPORTED_2(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr a, const void* b, size_t c), (a, b, c))
LANESCOPE_EXPORTED_2(cuMemcpyHtoDAsync_v2, _ptsz,
                     (CUdeviceptr a, const void* b, size_t c, CUstream d), (a, b, c, d))
LANESCOPE_EXPORTED_2(cuMemcpyDtoH_v2, _ptds, (void* a, CUdeviceptr b, size_t c), (a, b, c))
LANESCOPE_EXPORTED_2(cuMemcpyDtoHAsync_v2, _ptsz, (void* a, CUdeviceptr b, size_t c, CUstream d),
                     (a, b, c, d))
LANESCOPE_EXPORTED_2(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
LANESCOPE_EXPORTED_2(cuMemcpyDtoDAsync_v2, _ptsz,
                     (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
LANESCOPE_EXPORTED_2(cuMemcpy, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
LANESCOPE_EXPORTED_2(cuMemcpyAsync, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d),
                     (a, b, c, d))
LANESCOPE_EXPORTED_2(cuMemcpyPeer, _ptds,
                     (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e),
                     (a, b, c, d, e))
LANESCOPE_EXPORTED_2(cuMemcpyPeerAsync, _ptsz,
                     (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f),
                     (a, b, c, d, e, f))
LANESCOPE_EXPORTED_2(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* a, CUstream b), (a, b))
LANESCOPE_EXPORTED_2(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* a, CUstream b), (a, b))
LANESCOPE_EXPORTED_2(cuMemcpyBatchAsync_v2, _ptsz,
                     (CUdeviceptr * a, CUdeviceptr* b, size_t* c, size_t d, CUmemcpyAttributes* e,
                      size_t* f, size_t g, CUstream h),
                     (a, b, c, d, e, f, g, h))
#undef cuMemcpyBatchAsync  // CUDA 12.8's form of it, which has no number
LANESCOPE_EXPORTED_2(cuMemcpyBatchAsync, _ptsz,
                     (CUdeviceptr * a, CUdeviceptr* b, size_t* c, size_t d, CUmemcpyAttributes* e,
                      size_t* f, size_t g, size_t* h, CUstream i),
                     (a, b, c, d, e, f, g, h, i))
LANESCOPE_EXPORTED_2(cuStreamBeginCapture_v2, _ptsz, (CUstream a, CUstreamCaptureMode b), (a, b))
LANESCOPE_EXPORTED_2(cuStreamBeginCaptureToGraph, _ptsz,
                     (CUstream a, CUgraph b, const CUgraphNode* c, const CUgraphEdgeData* d,
                      size_t e, CUstreamCaptureMode f),
                     (a, b, c, d, e, f))
LANESCOPE_EXPORTED_2(cuStreamEndCapture, _ptsz, (CUstream a, CUgraph* b), (a, b))
LANESCOPE_EXPORTED_2(cuGraphLaunch, _ptsz, (CUgraphExec a, CUstream b), (a, b))
