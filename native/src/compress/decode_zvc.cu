#include "compress/codecs/zvc.hpp"
#include "compress/decode_kernel.cuh"

namespace lanescope::compress {

template struct DecodeKernel<ZvcStrip<std::uint8_t>>;
template struct DecodeKernel<ZvcStrip<std::uint16_t>>;
template struct DecodeKernel<ZvcStrip<std::uint32_t>>;
template struct DecodeKernel<ZvcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
