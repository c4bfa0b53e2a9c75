#include "compress/codecs/delta.hpp"
#include "compress/encode_kernel.cuh"

namespace lanescope::compress {

template struct EncodeKernel<DeltaStrip<std::uint16_t>>;
template struct EncodeKernel<DeltaStrip<std::uint32_t>>;
template struct EncodeKernel<DeltaStrip<std::uint64_t>>;

}  // namespace lanescope::compress
