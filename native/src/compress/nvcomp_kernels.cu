#include <algorithm>

#include "compress/nvcomp_group.cuh"
#include "compress/nvcomp_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

constexpr int kGroups = 4;
constexpr int kThreads = kGroups * kGroupThreads;
constexpr std::size_t kMostCtas = 4096;

/// Calls `step(i)` for the numbers below `count` that are a group's.
template <typename Step>
__device__ void for_mine(const Group& group, std::size_t count, Step step) {
  const std::size_t groups = std::size_t{kGroups} * gridDim.x;
  for (std::size_t i = std::size_t{kGroups} * blockIdx.x + group.number; i < count; i += groups)
    step(i);
}

__global__ void __launch_bounds__(kThreads) settle_kernel(Settling settling, std::size_t blocks) {
  __shared__ GroupShared groups[kGroups];
  const BlockSettler settler{Group::mine(groups), settling};
  for_mine(settler.group, blocks, [&](std::size_t block) {
    settler.settle(block, bytes_of_block(settling.bytes, block));
  });
}

__global__ void __launch_bounds__(kThreads) check_kernel(Checking checking, std::size_t blocks) {
  __shared__ GroupShared groups[kGroups];
  const Group group = Group::mine(groups);
  BlockChecker checker{{group,
                        nullptr,
                        checking.payloads,
                        checking.room,
                        {},
                        checking.value_bytes,
                        checking.binding,
                        0},
                       checking};
  for_mine(group, blocks, [&](std::size_t block) {
    const bool good = checker.check(block, bytes_of_block(checking.bytes, block));
    if (group.leads() && !good) keep_first(checking.wrong, block, 0);
  });
}

__global__ void __launch_bounds__(kThreads)
    decoded_kernel(Checking checking, const std::uint32_t* blocks, std::size_t count,
                   const std::size_t* out_bytes, const int* statuses) {
  __shared__ GroupShared groups[kGroups];
  const Group group = Group::mine(groups);
  for_mine(group, count, [&](std::size_t i) {
    const std::size_t block = blocks[i];
    const std::uint32_t bytes = bytes_of_block(checking.bytes, block);
    const bool same = has_checksum(group, checking, block, bytes);
    if (group.leads() && (!same || statuses[i] != 0 || out_bytes[i] != bytes))
      keep_first(checking.wrong, block, statuses[i]);
  });
}

unsigned int ctas_for(std::size_t blocks) {
  return static_cast<unsigned int>(std::min((blocks + kGroups - 1) / kGroups, kMostCtas));
}

}  // namespace

void settle_blocks(const Settling& settling, cudaStream_t stream) {
  const std::size_t blocks = blocks_of(settling.bytes);
  if (blocks == 0) return;
  settle_kernel<<<ctas_for(blocks), kThreads, 0, stream>>>(settling, blocks);
  check(cudaGetLastError(), "settle_kernel");
}

void check_blocks(const Checking& checking, cudaStream_t stream) {
  const std::size_t blocks = blocks_of(checking.bytes);
  if (blocks == 0) return;
  check_kernel<<<ctas_for(blocks), kThreads, 0, stream>>>(checking, blocks);
  check(cudaGetLastError(), "check_kernel");
}

void check_decoded(const Checking& checking, const std::uint32_t* blocks, std::size_t count,
                   const std::size_t* out_bytes, const int* statuses, cudaStream_t stream) {
  if (count == 0) return;
  decoded_kernel<<<ctas_for(count), kThreads, 0, stream>>>(checking, blocks, count, out_bytes,
                                                           statuses);
  check(cudaGetLastError(), "decoded_kernel");
}

}  // namespace lanescope::compress
