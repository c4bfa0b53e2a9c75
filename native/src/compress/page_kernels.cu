#include <algorithm>

#include "compress/page_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

constexpr int kPageThreads = 256;  // each has four loads of 16 bytes on the way

__global__ void __launch_bounds__(kPageThreads)
    copy_parts_kernel(const PagePart* parts, std::size_t count) {
  copy_parts(parts, count, blockIdx.x, gridDim.x, threadIdx.x, kPageThreads);
}

__global__ void __launch_bounds__(kPageThreads) copy_part_kernel(PagePart part) {
  copy_parts(&part, 1, 0, 1, threadIdx.x, kPageThreads);
}

}  // namespace

void launch_copy_part(const PagePart& part, cudaStream_t stream) {
  copy_part_kernel<<<1, kPageThreads, 0, stream>>>(part);
  check(cudaGetLastError(), "copy_part_kernel");
}

void launch_copy_parts(const PagePart* parts, std::size_t count, int ctas, cudaStream_t stream) {
  if (count == 0) return;
  const auto grid =
      static_cast<unsigned int>(std::min(count, static_cast<std::size_t>(std::max(ctas, 1))));
  copy_parts_kernel<<<grid, kPageThreads, 0, stream>>>(parts, count);
  check(cudaGetLastError(), "copy_parts_kernel");
}

}  // namespace lanescope::compress
