#include "compress/codecs/gfc.hpp"
#include "compress/decode_kernel.cuh"

namespace lanescope::compress {

template struct DecodeKernel<GfcStrip<std::uint32_t>>;
template struct DecodeKernel<GfcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
