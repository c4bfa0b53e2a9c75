#include "compress/codecs/exponent.hpp"
#include "compress/decode_kernel.cuh"

namespace lanescope::compress {

template struct DecodeKernel<ExponentStrip<Bfloat16>>;
template struct DecodeKernel<ExponentStrip<Float16>>;
template struct DecodeKernel<ExponentStrip<Float32>>;

}  // namespace lanescope::compress
