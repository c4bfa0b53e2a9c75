#include "compress/encode_kernel.cuh"
#include "compress/exponent.hpp"

namespace lanescope::compress {

template struct EncodeKernel<ExponentStrip<Bfloat16>>;
template struct EncodeKernel<ExponentStrip<Float16>>;
template struct EncodeKernel<ExponentStrip<Float32>>;

}  // namespace lanescope::compress
