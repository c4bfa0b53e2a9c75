#include <algorithm>

#include "compress/checksum.hpp"
#include "compress/gather_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

constexpr int kScanThreads = 1024;
constexpr int kWarpLanes = 32;
constexpr int kScanWarps = kScanThreads / kWarpLanes;
constexpr int kGatherThreads = 256;
constexpr std::size_t kMostGathers = 4096;

__device__ std::uint64_t sum_up(std::uint64_t value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
  for (int apart = 1; apart < kWarpLanes; apart *= 2) {
    const std::uint64_t before =
        __shfl_up_sync(0xFFFFFFFF, static_cast<unsigned long long>(value), apart);
    if (lane >= apart) value += before;
  }
  return value;
}

/// One block of threads: what it reads is 1/4096 of what was compressed.
__global__ void __launch_bounds__(kScanThreads)
    order_kernel(const Entry* entries, std::size_t blocks, Front front, std::uint64_t* offsets) {
  __shared__ std::uint64_t ends[kScanWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  std::uint64_t done = 0, sum = 0;
  for (std::size_t first = 0; first < blocks; first += kScanThreads) {
    const std::size_t i = first + threadIdx.x;
    const Descriptor descriptor = i < blocks ? entries[i].descriptor : Descriptor{};
    const std::uint64_t size = padded(descriptor.payload_bytes());
    const std::uint64_t end = sum_up(size);
    if (lane == kWarpLanes - 1) ends[warp] = end;
    __syncthreads();
    std::uint64_t before = 0, all = 0;
    for (int other = 0; other < kScanWarps; ++other) {
      if (other < warp) before += ends[other];
      all += ends[other];
    }
    if (i < blocks) {
      front.descriptors[i] = descriptor;
      sum += checksum_part(descriptor.word(), front.place + i);
      offsets[i] = done + before + end - size;
    }
    done += all;
    __syncthreads();
  }
  sum = sum_up(sum);
  if (lane == kWarpLanes - 1) ends[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint64_t all = front.sum;
  for (int other = 0; other < kScanWarps; ++other) all += ends[other];
  *front.checksum = checksum_end(all);
}

__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(const Entry* entries, std::size_t blocks, const std::byte* payloads,
                  const std::uint64_t* offsets, std::byte* out) {
  constexpr std::size_t kAtOnce = 4;
  for (std::size_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::size_t units = padded(entries[block].descriptor.payload_bytes()) / 16;
    const auto* from = reinterpret_cast<const uint4*>(payloads + entries[block].offset);
    auto* to = reinterpret_cast<uint4*>(out + offsets[block]);
    for (std::size_t i = threadIdx.x; i < units; i += kAtOnce * kGatherThreads) {
      uint4 held[kAtOnce];
#pragma unroll
      for (std::size_t k = 0; k < kAtOnce; ++k)
        if (i + k * kGatherThreads < units) held[k] = from[i + k * kGatherThreads];
#pragma unroll
      for (std::size_t k = 0; k < kAtOnce; ++k)
        if (i + k * kGatherThreads < units) to[i + k * kGatherThreads] = held[k];
    }
  }
}

}  // namespace

void order_entries(const Entry* entries, std::size_t blocks, const Front& front,
                   std::uint64_t* offsets, cudaStream_t stream) {
  if (blocks == 0) return;
  order_kernel<<<1, kScanThreads, 0, stream>>>(entries, blocks, front, offsets);
  check(cudaGetLastError(), "order_kernel");
}

void gather_payloads(const Entry* entries, std::size_t blocks, const std::byte* payloads,
                     const std::uint64_t* offsets, std::byte* out, cudaStream_t stream) {
  if (blocks == 0) return;
  const auto grid = static_cast<unsigned int>(std::min(blocks, kMostGathers));
  gather_kernel<<<grid, kGatherThreads, 0, stream>>>(entries, blocks, payloads, offsets, out);
  check(cudaGetLastError(), "gather_kernel");
}

}  // namespace lanescope::compress
