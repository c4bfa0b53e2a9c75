#include <string>

#include "build_info.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope {

void throw_missing_code(const char* call, cudaError_t status, std::source_location where) {
  int device = 0, major = 0, minor = 0;
  forgive(cudaGetDevice(&device));
  forgive(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  forgive(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  throw Error(call, static_cast<int>(status), kNoCode,
              "this build of lanescope has code for " + std::string(build_info().code) +
                  ", and none of it runs on GPU " + std::to_string(device) +
                  " of compute capability " + std::to_string(major) + "." + std::to_string(minor),
              where);
}

}  // namespace lanescope
