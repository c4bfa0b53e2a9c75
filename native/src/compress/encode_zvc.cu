#include "compress/encode_kernel.cuh"
#include "compress/zvc.hpp"

namespace lanescope::compress {

template struct EncodeKernel<ZvcStrip<std::uint8_t>>;
template struct EncodeKernel<ZvcStrip<std::uint16_t>>;
template struct EncodeKernel<ZvcStrip<std::uint32_t>>;
template struct EncodeKernel<ZvcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
