#include "inject/copy_call.hpp"

#include <cstddef>
#include <iterator>

namespace lanescope::inject {

namespace {

constexpr CUpti_CallbackDomain kDriver = CUPTI_CB_DOMAIN_DRIVER_API;
constexpr CUpti_CallbackDomain kRuntime = CUPTI_CB_DOMAIN_RUNTIME_API;

template <class Arguments>
const Arguments& as(const void* arguments) {
  return *static_cast<const Arguments*>(arguments);
}

std::uint64_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::uint64_t stream_number(const void* stream, bool per_thread) {
  if (stream != nullptr) return number(stream);
  return number(per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
}

void set_stream(CopyCall& call, const void* stream, bool per_thread) {
  call.asynchronous = true;
  call.queue.stream = stream_number(stream, per_thread);
}

CopyCall to_device(const void* arguments) {
  const auto& own = as<cuMemcpyHtoD_v2_params>(arguments);
  return {number(own.srcHost), own.dstDevice, own.ByteCount, Way::to_device};
}

CopyCall from_device(const void* arguments) {
  const auto& own = as<cuMemcpyDtoH_v2_params>(arguments);
  return {own.srcDevice, number(own.dstHost), own.ByteCount, Way::from_device};
}

CopyCall either(const void* arguments) {
  const auto& own = as<cuMemcpy_params>(arguments);
  return {own.src, own.dst, own.ByteCount, Way::unknown};
}

std::optional<CopyCall> of_runtime(const void* arguments) {
  const auto& own = as<cudaMemcpy_v3020_params>(arguments);
  const CopyCall call{number(own.src), number(own.dst), own.count, Way::unknown};
  switch (own.kind) {
    case cudaMemcpyHostToDevice:
      return CopyCall{call.source, call.destination, call.bytes, Way::to_device};
    case cudaMemcpyDeviceToHost:
      return CopyCall{call.source, call.destination, call.bytes, Way::from_device};
    case cudaMemcpyDefault:
      return call;
    default:
      return std::nullopt;
  }
}

/// @return a call with the stream that it was put into.
template <class Arguments>
CopyCall on_stream(CopyCall call, const void* arguments, bool per_thread) {
  set_stream(call, as<Arguments>(arguments).hStream, per_thread);
  return call;
}

std::optional<CopyCall> of_driver(CUpti_CallbackId id, const void* arguments) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds:
      return to_device(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz:
      return on_stream<cuMemcpyHtoDAsync_v2_params>(
          to_device(arguments), arguments, id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds:
      return from_device(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz:
      return on_stream<cuMemcpyDtoHAsync_v2_params>(
          from_device(arguments), arguments,
          id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpy:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds:
      return either(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz:
      return on_stream<cuMemcpyAsync_params>(either(arguments), arguments,
                                             id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz);
    default:
      return std::nullopt;
  }
}

}  // namespace

// The arguments of an asynchronous call begin as those of the other do.
static_assert(offsetof(cuMemcpyHtoDAsync_v2_params, ByteCount) ==
                  offsetof(cuMemcpyHtoD_v2_params, ByteCount) &&
              offsetof(cuMemcpyDtoHAsync_v2_params, ByteCount) ==
                  offsetof(cuMemcpyDtoH_v2_params, ByteCount) &&
              offsetof(cuMemcpyAsync_params, ByteCount) == offsetof(cuMemcpy_params, ByteCount) &&
              offsetof(cudaMemcpyAsync_v3020_params, kind) ==
                  offsetof(cudaMemcpy_v3020_params, kind) &&
              offsetof(cuStreamDestroy_v2_params, hStream) ==
                  offsetof(cuStreamSynchronize_params, hStream));

const CopyCallId kCopyCalls[] = {
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpy},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz},
    {kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020},
    {kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020},
    {kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000},
    {kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000},
};
const std::size_t kCopyCallCount = std::size(kCopyCalls);

const CopyCallId kWaitCalls[] = {
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize},
    // by whichever call of the driver's: newer ones have a second
    {kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy},
    {kDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2},
};
const std::size_t kWaitCallCount = std::size(kWaitCalls);

std::optional<WaitCall> wait_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                  const void* arguments) noexcept {
  const CUpti_CallbackId of_all = domain == kRuntime
                                      ? CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020
                                      : CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize;
  if (id == of_all) return WaitCall{Ends::context, {}};
  if (domain != kDriver) return std::nullopt;
  if (arguments == nullptr) return std::nullopt;
  const auto of_stream = [&](Ends ends) {
    const bool per_thread = id == CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz;
    const auto& own = as<cuStreamSynchronize_params>(arguments);
    return WaitCall{ends, {stream_number(own.hStream, per_thread)}};
  };
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz:
      return of_stream(Ends::stream);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2:
      return of_stream(Ends::destroyed);
    default:
      return std::nullopt;
  }
}

std::optional<CopyCall> copy_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                  const void* arguments) noexcept {
  if (arguments == nullptr) return std::nullopt;
  if (domain == kRuntime) {
    std::optional<CopyCall> call = of_runtime(arguments);
    const bool queued = id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020 ||
                        id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000;
    if (call && queued)
      set_stream(*call, as<cudaMemcpyAsync_v3020_params>(arguments).stream,
                 id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000);
    return call;
  }
  return of_driver(id, arguments);
}

}  // namespace lanescope::inject
