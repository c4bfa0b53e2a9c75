#include "boost/driver.hpp"

#include "intercept/real_dlsym.hpp"

namespace lanescope::boost {

namespace {

/// Look a function up.
/// @return whether it is there.
template <class Function>
bool find(Function& to, const char* symbol) noexcept {
  to = reinterpret_cast<Function>(intercept::driver_symbol(symbol));
  return to != nullptr;
}

Driver found_driver() noexcept {
  Driver it;
  find(it.batch_12, "cuMemcpyBatchAsync");
  find(it.batch_13, "cuMemcpyBatchAsync_v2");
  it.complete =
      find(it.cuCtxGetCurrent, "cuCtxGetCurrent") && find(it.cuCtxGetDevice, "cuCtxGetDevice") &&
      find(it.cuCtxGetId, "cuCtxGetId") && find(it.cuDeviceGetCount, "cuDeviceGetCount") &&
      find(it.cuDeviceGetAttribute, "cuDeviceGetAttribute") &&
      find(it.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId") &&
      find(it.cuPointerGetAttributes, "cuPointerGetAttributes") &&
      find(it.cuStreamIsCapturing, "cuStreamIsCapturing") &&
      find(it.cuStreamGetCtx, "cuStreamGetCtx") &&
      find(it.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode") &&
      find(it.cuStreamCreate, "cuStreamCreate") &&
      find(it.cuStreamSynchronize, "cuStreamSynchronize") &&
      find(it.cuStreamWaitEvent, "cuStreamWaitEvent") && find(it.cuEventCreate, "cuEventCreate") &&
      find(it.cuEventRecord, "cuEventRecord") && find(it.cuEventQuery, "cuEventQuery") &&
      find(it.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") &&
      find(it.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") &&
      find(it.cuCtxPushCurrent, "cuCtxPushCurrent_v2") &&
      find(it.cuCtxPopCurrent, "cuCtxPopCurrent_v2") &&
      find(it.cuMemHostRegister, "cuMemHostRegister_v2") &&
      find(it.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2") &&
      find(it.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  return it;
}

}  // namespace

const Driver& driver() noexcept {
  static const Driver found = found_driver();
  return found;
}

}  // namespace lanescope::boost
