#include "compress/decode_kernel.cuh"
#include "compress/exponent.hpp"

namespace lanescope::compress {

template struct DecodeKernel<ExponentStrip<Bfloat16>>;
template struct DecodeKernel<ExponentStrip<Float16>>;
template struct DecodeKernel<ExponentStrip<Float32>>;

}  // namespace lanescope::compress
