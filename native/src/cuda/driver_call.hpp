#pragma once

#include <cuda.h>

#include "cuda/cuda_handles.hpp"

namespace lanescope {

/// A call of the driver, which is not linked: a machine without it has the rest all the same.
template <typename Function>
class DriverCall {
 public:
  DriverCall(const char* name, unsigned int since) : name_(name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result);
    forgive(status);
    if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
      function_ = reinterpret_cast<Function*>(found);
  }

  template <typename... Arguments>
  CUresult tried(Arguments... arguments) const {
    return function_ == nullptr ? CUDA_ERROR_NOT_SUPPORTED : function_(arguments...);
  }

  /// Throws `Error`.
  template <typename... Arguments>
  void operator()(Arguments... arguments) const {
    const CUresult status = tried(arguments...);
    if (status != CUDA_SUCCESS)
      throw Error(name_, static_cast<int>(status), "CUDA driver error", meaning(status));
  }

 private:
  static const char* meaning(CUresult status) {
    switch (status) {
      case CUDA_ERROR_NOT_SUPPORTED:
        return "the driver or the device cannot do it";
      case CUDA_ERROR_NOT_PERMITTED:
        return "it is not permitted; fabric handles need an IMEX channel";
      case CUDA_ERROR_OUT_OF_MEMORY:
        return "out of memory";
      default:
        return "see CUresult";
    }
  }

  const char* name_;
  Function* function_ = nullptr;
};

}  // namespace lanescope
