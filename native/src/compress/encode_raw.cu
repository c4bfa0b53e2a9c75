#include "compress/encode_kernel.cuh"

namespace lanescope::compress {

template struct EncodeKernel<NoStrip>;

}  // namespace lanescope::compress
