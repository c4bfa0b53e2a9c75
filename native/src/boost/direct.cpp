// One copy of this process, which Python or C++ calls for: carried as those of boosted programs
// are, also where this code does not stand before the driver.

#include "boost/direct.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include "boost/carried_or.hpp"
#include "boost/copy.hpp"
#include "boost/driver.hpp"
#include "boost/undisturbed.hpp"
#include "boost/wrappers.hpp"
#include "intercept/real_dlsym.hpp"

namespace lanescope::boost {

namespace {

/// The driver's asynchronous copies as a program gets them that looks them up: what stands before
/// the driver in this process has its turn.
struct LookedUp {
  CUresult (*to_gpu)(CUdeviceptr, const void*, std::size_t, CUstream) = nullptr;
  CUresult (*from_gpu)(void*, CUdeviceptr, std::size_t, CUstream) = nullptr;

  [[nodiscard]] CUresult copy(const Request& request, Direction direction) const noexcept {
    if (direction == Direction::to_gpu)
      return to_gpu(request.to, reinterpret_cast<const void*>(request.from), request.bytes,
                    request.stream);
    return from_gpu(reinterpret_cast<void*>(request.to), request.from, request.bytes,
                    request.stream);
  }
};

template <class Function>
void look_up(Function& to, const char* symbol) noexcept {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* found = library == nullptr ? nullptr : dlsym(library, symbol);
  to = reinterpret_cast<Function>(found != nullptr ? found : intercept::driver_symbol(symbol));
}

const LookedUp& looked_up() noexcept {
  static const LookedUp found = [] {
    LookedUp it;
    look_up(it.to_gpu, "cuMemcpyHtoDAsync_v2");
    look_up(it.from_gpu, "cuMemcpyDtoHAsync_v2");
    return it;
  }();
  return found;
}

/// The context of a GPU that CUDA's runtime uses, current as long as this lives.
class PrimaryContext {
 public:
  explicit PrimaryContext(CUdevice gpu) noexcept : gpu_(gpu) {
    CUcontext context = nullptr;
    result = driver().cuDevicePrimaryCtxRetain(&context, gpu);
    if (result != CUDA_SUCCESS) return;
    is_held_ = true;
    result = driver().cuCtxPushCurrent(context);
    is_current_ = result == CUDA_SUCCESS;
  }
  ~PrimaryContext() {
    CUcontext context = nullptr;
    if (is_current_) driver().cuCtxPopCurrent(&context);
    if (is_held_) driver().cuDevicePrimaryCtxRelease(gpu_);
  }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  CUresult result = CUDA_SUCCESS;

 private:
  CUdevice gpu_;
  bool is_held_ = false, is_current_ = false;
};

/// @return an error where a stream is captured: its copy would be made later, if ever.
CUresult why_not_now(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().cuStreamIsCapturing(stream, &status);
  const bool captured = result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
  return captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : result;
}

CUresult copy_now(const Request& request, Direction direction) noexcept {
  if (const CUresult why = why_not_now(request.stream); why != CUDA_SUCCESS) return why;
  const Undisturbed undisturbed;
  const LookedUp& calls = looked_up();  // by which it is seen whether this library stands before
  const auto by_driver = [&] { return calls.copy(request, direction); };
  const CUresult result =
      stand_before_driver(direction) ? by_driver() : carried_or(request, by_driver);
  // Of pinned memory the driver reads on after it has returned, and today's may write on.
  const bool is_over = direction == Direction::to_gpu && is_pageable(request.from, request.bytes);
  if (result != CUDA_SUCCESS || is_over) return result;
  return driver().cuStreamSynchronize(request.stream);
}

}  // namespace

}  // namespace lanescope::boost

LANESCOPE_BOOST_EXPORTED int lanescope_boost_copy(std::uint64_t to, std::uint64_t from,
                                                  std::size_t bytes, std::uint64_t stream, int gpu,
                                                  int is_to_gpu) {
  using namespace lanescope::boost;
  if (bytes == 0) return CUDA_SUCCESS;
  // The driver is looked up once: not before it is there.
  if (lanescope::intercept::driver_symbol("cuInit") == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (!driver().complete) return CUDA_ERROR_NOT_SUPPORTED;
  // Nothing is gathered across a change of the context that nobody notices.
  if (const CUresult failed = settle_before_driver(); failed != CUDA_SUCCESS) return failed;
  const PrimaryContext current(gpu);
  if (current.result != CUDA_SUCCESS) return current.result;
  static const bool prepared = (prepare(), true);
  static_cast<void>(prepared);
  const Direction direction = is_to_gpu != 0 ? Direction::to_gpu : Direction::from_gpu;
  CUstream where = stream == 0 ? CU_STREAM_LEGACY : reinterpret_cast<CUstream>(stream);
  // As a synchronous copy: a row of copies that return early leaves the stream busy, so that nobody
  // learns what each took, and the ring does not grow.
  const CUresult result = copy_now({to, from, bytes, where, false, direction}, direction);
  const CUresult failed = settle_before_driver();
  return result == CUDA_SUCCESS ? failed : result;
}

LANESCOPE_BOOST_EXPORTED const char* lanescope_boost_error(int result) {
  const auto describe = reinterpret_cast<CUresult (*)(CUresult, const char**)>(
      lanescope::intercept::driver_symbol("cuGetErrorString"));
  const char* text = nullptr;
  if (describe == nullptr || describe(static_cast<CUresult>(result), &text) != CUDA_SUCCESS)
    return nullptr;
  return text;
}
