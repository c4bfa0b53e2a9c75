#include "compress/decode_kernel.cuh"
#include "compress/gfc.hpp"

namespace lanescope::compress {

template struct DecodeKernel<GfcStrip<std::uint32_t>>;
template struct DecodeKernel<GfcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
