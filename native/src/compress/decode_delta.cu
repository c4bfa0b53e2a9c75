#include "compress/codecs/delta.hpp"
#include "compress/decode_kernel.cuh"

namespace lanescope::compress {

template struct DecodeKernel<DeltaStrip<std::uint16_t>>;
template struct DecodeKernel<DeltaStrip<std::uint32_t>>;
template struct DecodeKernel<DeltaStrip<std::uint64_t>>;

}  // namespace lanescope::compress
