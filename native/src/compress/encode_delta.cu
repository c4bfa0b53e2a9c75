#include "encode_kernel.cuh"
#include "lanescope/compress/delta.hpp"

namespace lanescope::compress {

template struct EncodeKernel<DeltaStrip<std::uint16_t>>;
template struct EncodeKernel<DeltaStrip<std::uint32_t>>;
template struct EncodeKernel<DeltaStrip<std::uint64_t>>;

}  // namespace lanescope::compress
