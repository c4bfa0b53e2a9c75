#include "compress/codecs/gfc.hpp"
#include "compress/encode_kernel.cuh"

namespace lanescope::compress {

template struct EncodeKernel<GfcStrip<std::uint32_t>>;
template struct EncodeKernel<GfcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
