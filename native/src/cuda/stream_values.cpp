#include "cuda/stream_values.hpp"

#include <cuda.h>

#include <cstdint>

#include "cuda/driver_call.hpp"

namespace lanescope {

namespace {

struct Calls {
  // the form of the calls that is meant here
  DriverCall<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int)> wait{"cuStreamWaitValue32",
                                                                             11070};
  DriverCall<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int)> write{
      "cuStreamWriteValue32", 11070};
};

const Calls& calls() {
  static const Calls known;
  return known;
}

CUdeviceptr address(const unsigned int* word) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(word));
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
  const unsigned int flags = CU_STREAM_WAIT_VALUE_GEQ;
  calls().wait(stream, address(word), value, flags);
}

void write_value(cudaStream_t stream, unsigned int* word, unsigned int value) {
  const unsigned int flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  calls().write(stream, address(word), value, flags);
}

}  // namespace lanescope
