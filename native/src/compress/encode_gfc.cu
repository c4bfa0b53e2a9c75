#include "compress/encode_kernel.cuh"
#include "compress/gfc.hpp"

namespace lanescope::compress {

template struct EncodeKernel<GfcStrip<std::uint32_t>>;
template struct EncodeKernel<GfcStrip<std::uint64_t>>;

}  // namespace lanescope::compress
