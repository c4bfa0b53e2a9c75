#include "compress/codecs/exponent.hpp"
#include "compress/encode_kernel.cuh"

namespace lanescope::compress {

template struct EncodeKernel<ExponentStrip<Bfloat16>>;
template struct EncodeKernel<ExponentStrip<Float16>>;
template struct EncodeKernel<ExponentStrip<Float32>>;

}  // namespace lanescope::compress
