#include <algorithm>

#include "cuda/cuda_handles.hpp"
#include "cuda/piece_kernels.hpp"

namespace lanescope {

namespace {

constexpr int kPieceThreads = 256;  // a multiple of a warp, as dividing the work needs it
constexpr std::size_t kMostPieceBlocks = 1024;

__device__ std::size_t this_thread() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ std::size_t all_threads() {
  return std::size_t{gridDim.x} * blockDim.x;
}

__global__ void __launch_bounds__(kPieceThreads)
    copy_kernel(const PieceEnds* table, PieceWork work) {
  copy_pieces(table, work, this_thread(), all_threads());
}

__global__ void __launch_bounds__(kPieceThreads)
    write_kernel(const PieceEnds* table, PieceWork work, std::uint64_t seed) {
  write_pieces(table, work, seed, this_thread(), all_threads());
}

/// The threads of this one's group, as a mask over its warp.
__device__ unsigned group_mask(unsigned lanes) {
  const unsigned first = threadIdx.x % 32 / lanes * lanes;
  return (lanes == 32 ? 0xffffffffu : (1u << lanes) - 1) << first;
}

__global__ void __launch_bounds__(kPieceThreads)
    sum_kernel(const PieceEnds* table, PieceWork work, std::uint64_t* sums) {
  const unsigned lanes = work.lanes(), mask = group_mask(lanes);
  const std::size_t thread = this_thread();
  // The threads of a group go round equally often; those of a warp need not.
  for (std::size_t item = thread / lanes; item < work.items(); item += all_threads() / lanes) {
    const Share share = work.share(item, thread);
    unsigned long long sum = sum_share(table[work.piece_of(item)].source, share);
    for (unsigned step = lanes / 2; step > 0; step /= 2)
      sum += __shfl_down_sync(mask, sum, step, static_cast<int>(lanes));
    if (share.lane == 0) sums[item] = sum;
  }
}

__global__ void check_kernel(const std::uint64_t* words, PieceLayout layout, PieceSeeds seeds,
                             unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  for (std::size_t i = this_thread(); i < layout.span() / 8; i += all_threads())
    wrong += count_bytes(words[i] ^ expected_word(layout, seeds, i));
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

__global__ void check_sums_kernel(const std::uint64_t* sums, PieceWork work, std::uint64_t seed,
                                  unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  for (std::size_t item = this_thread(); item < work.items(); item += all_threads())
    wrong += sums[item] != expected_sum(work, seed, item);
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

unsigned piece_blocks(std::size_t threads) {
  const std::size_t blocks = (threads + kPieceThreads - 1) / kPieceThreads;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, kMostPieceBlocks));
}

unsigned piece_blocks(const PieceWork& work) {
  return piece_blocks(work.items() * work.lanes());
}

}  // namespace

void launch_copy_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work) {
  copy_kernel<<<piece_blocks(work), kPieceThreads, 0, stream>>>(table, work);
  check(cudaGetLastError(), "launch of the kernel that copies pieces");
}

void launch_sum_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work,
                       std::uint64_t* sums) {
  sum_kernel<<<piece_blocks(work), kPieceThreads, 0, stream>>>(table, work, sums);
  check(cudaGetLastError(), "launch of the kernel that reads pieces in place");
}

void launch_write_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work,
                         std::uint64_t seed) {
  write_kernel<<<piece_blocks(work), kPieceThreads, 0, stream>>>(table, work, seed);
  check(cudaGetLastError(), "launch of the kernel that writes pieces in place");
}

void launch_check_pieces(cudaStream_t stream, const void* destination, const PieceLayout& layout,
                         const PieceSeeds& seeds, unsigned long long* mismatches) {
  check_kernel<<<piece_blocks(layout.span() / 8), kPieceThreads, 0, stream>>>(
      static_cast<const std::uint64_t*>(destination), layout, seeds, mismatches);
  check(cudaGetLastError(), "launch of the kernel that checks pieces");
}

void launch_check_sums(cudaStream_t stream, const std::uint64_t* sums, const PieceWork& work,
                       std::uint64_t seed, unsigned long long* mismatches) {
  check_sums_kernel<<<piece_blocks(work.items()), kPieceThreads, 0, stream>>>(sums, work, seed,
                                                                              mismatches);
  check(cudaGetLastError(), "launch of the kernel that checks sums");
}

}  // namespace lanescope
