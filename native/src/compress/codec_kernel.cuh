#pragma once

#include "compress/strip_codec.hpp"
#include "compress/strip_kernels.hpp"

namespace lanescope::compress {

/// `get` returns the kernel that does a job to strips of a class.
template <typename Job, typename Strip>
struct StripKernel;

template <typename Job, Codec codec>
Kernel<Job> kernel_of(Dtype dtype, bool update) {
  Kernel<Job> found;
  CodecOf<codec>::with_strip(
      dtype, [&]<typename Strip>(Strip) { found = StripKernel<Job, Strip>::get(update); });
  return found;
}

}  // namespace lanescope::compress
