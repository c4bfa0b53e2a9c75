#include "compress/codecs/zvc.hpp"
#include "compress/encode_kernel.cuh"

namespace lanescope::compress {

template struct EncodeKernel<ZvcStrip<std::uint8_t>>;
template struct EncodeKernel<ZvcStrip<std::uint16_t>>;
template struct EncodeKernel<ZvcStrip<std::uint32_t>>;
template struct EncodeKernel<ZvcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
