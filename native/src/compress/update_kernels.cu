#include <algorithm>

#include "compress/update_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

constexpr int kUpdateThreads = 256;
constexpr int kUpdateLanes = 32;
/// Some for each SM of the largest GPUs: more find nothing to do.
constexpr std::size_t kMostUpdateCtas = 2048;

unsigned int update_ctas(std::size_t bytes) {
  constexpr std::size_t each = kUpdateThreads * kUnitsAtOnce * sizeof(Unit);
  return static_cast<unsigned int>(
      std::clamp((bytes + each - 1) / each, std::size_t{1}, kMostUpdateCtas));
}

__device__ Share share_here() {
  return {std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, std::size_t{gridDim.x} * blockDim.x};
}

__global__ void __launch_bounds__(kUpdateThreads)
    sum_kernel(const std::byte* data, std::size_t bytes, unsigned long long* sum) {
  __shared__ unsigned long long sums[kUpdateThreads / kUpdateLanes];
  unsigned long long mine = sum_share(share_here(), data, bytes);
#pragma unroll
  for (int apart = kUpdateLanes / 2; apart > 0; apart /= 2)
    mine += __shfl_down_sync(0xFFFFFFFF, mine, apart);
  if (threadIdx.x % kUpdateLanes == 0) sums[threadIdx.x / kUpdateLanes] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned long long all = 0;
  for (const unsigned long long one : sums) all += one;
  atomicAdd(sum, all);
}

__global__ void __launch_bounds__(kUpdateThreads)
    take_kernel(Differing differing, const std::byte* values, const std::byte* base, std::byte* out,
                std::size_t bytes) {
  take_share(share_here(), differing, values, base, out, bytes);
}

__global__ void __launch_bounds__(kUpdateThreads)
    put_kernel(Differing differing, const std::byte* differences, const std::byte* base,
               std::byte* out, std::size_t bytes, const Fault* of_slab, BaseCheck check) {
  const Share share = share_here();
  __shared__ bool may;  // one look a CTA: the sender's sum may lie in the host's memory
  if (threadIdx.x == 0) may = may_put(share, of_slab, check);
  __syncthreads();
  if (may) put_share(share, differing, differences, base, out, bytes);
}

}  // namespace

void load_update_kernels() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, sum_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&attributes, take_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&attributes, put_kernel), "cudaFuncGetAttributes");
}

void sum_blocks(const std::byte* data, std::size_t bytes, unsigned long long* sum,
                cudaStream_t stream) {
  sum_kernel<<<update_ctas(bytes), kUpdateThreads, 0, stream>>>(data, bytes, sum);
  check(cudaGetLastError(), "sum_kernel");
}

void take_differences(const Differing& differing, const std::byte* values, const std::byte* base,
                      std::byte* out, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  take_kernel<<<update_ctas(bytes), kUpdateThreads, 0, stream>>>(differing, values, base, out,
                                                                 bytes);
  check(cudaGetLastError(), "take_kernel");
}

void put_differences(const Differing& differing, const std::byte* differences,
                     const std::byte* base, std::byte* out, std::size_t bytes, const Fault* of_slab,
                     const BaseCheck& base_check, cudaStream_t stream) {
  if (bytes == 0) return;
  put_kernel<<<update_ctas(bytes), kUpdateThreads, 0, stream>>>(differing, differences, base, out,
                                                                bytes, of_slab, base_check);
  check(cudaGetLastError(), "put_kernel");
}

}  // namespace lanescope::compress
