#include "compress/decode_kernel.cuh"

namespace lanescope::compress {

template struct DecodeKernel<NoStrip>;

}  // namespace lanescope::compress
