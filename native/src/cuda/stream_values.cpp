#include "cuda/stream_values.hpp"

#include <cuda.h>

#include <cstdint>

#include "cuda/cuda_handles.hpp"

namespace lanescope {

namespace {

using Call = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

/// Null where the driver has no such call.
Call* driver_call(const char* name) {
  constexpr unsigned int kSince = 11070;  // the form of the calls that is meant here
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result);
  forgive(status);
  const bool there = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return there ? reinterpret_cast<Call*>(found) : nullptr;
}

struct Calls {
  Call* wait = driver_call("cuStreamWaitValue32");
  Call* write = driver_call("cuStreamWriteValue32");
};

const Calls& calls() {
  static const Calls known;
  return known;
}

void call(Call* function, const char* name, cudaStream_t stream, const unsigned int* word,
          unsigned int value, unsigned int flags) {
  if (function == nullptr) throw Error(name, 0, "not supported", "the driver has no such call");
  const auto at = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(word));
  const CUresult status = function(stream, at, value, flags);
  if (status != CUDA_SUCCESS)
    throw Error(name, static_cast<int>(status), "CUDA driver error",
                "a stream cannot wait for, or write, a word in memory");
}

}  // namespace

bool streams_take_values(cudaStream_t stream, unsigned int* word) {
  try {
    write_value(stream, word, 0);
    wait_for_value(stream, word, 0);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void wait_for_value(cudaStream_t stream, const unsigned int* word, unsigned int value) {
  call(calls().wait, "cuStreamWaitValue32", stream, word, value, CU_STREAM_WAIT_VALUE_GEQ);
}

void write_value(cudaStream_t stream, unsigned int* word, unsigned int value) {
  call(calls().write, "cuStreamWriteValue32", stream, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

}  // namespace lanescope
