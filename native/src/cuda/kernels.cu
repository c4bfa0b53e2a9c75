#include <algorithm>

#include "cuda/cuda_handles.hpp"
#include "cuda/device_clock.cuh"
#include "cuda/kernels.hpp"
#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr int kPatternThreads = 256;
constexpr int kMostPatternBlocks = 2048;

__global__ void gate_kernel(const volatile int* open, volatile int* timed_out,
                            std::uint64_t timeout_ns) {
  const std::uint64_t begin = global_nanoseconds();
  while (*open == 0) {
    if (global_nanoseconds() - begin > timeout_ns) {
      *timed_out = 1;
      return;
    }
  }
}

__global__ void fill_kernel(std::uint64_t* words, std::size_t bytes, std::uint64_t seed) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t i = first; i < bytes / 8; i += step) words[i] = pattern_word(seed, i);
  if (first == 0)
    for (std::size_t i = bytes / 8 * 8; i < bytes; ++i)
      reinterpret_cast<std::uint8_t*>(words)[i] = pattern_byte(seed, i);
}

__global__ void check_kernel(const std::uint64_t* words, std::size_t bytes, std::uint64_t seed,
                             unsigned long long* mismatches) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long wrong = 0;
  for (std::size_t i = first; i < bytes / 8; i += step)
    for (std::uint64_t bits = words[i] ^ pattern_word(seed, i); bits != 0; bits >>= 8)
      wrong += (bits & 0xff) != 0;
  if (first == 0)
    for (std::size_t i = bytes / 8 * 8; i < bytes; ++i)
      wrong += reinterpret_cast<const std::uint8_t*>(words)[i] != pattern_byte(seed, i);
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

unsigned pattern_blocks(std::size_t bytes) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(bytes / 8 / kPatternThreads, 1, kMostPatternBlocks));
}

}  // namespace

void preload_gate() {
  cudaFuncAttributes unused;
  check(cudaFuncGetAttributes(&unused, gate_kernel), "cudaFuncGetAttributes");
}

void launch_gate(cudaStream_t stream, const volatile int* open, volatile int* timed_out,
                 std::uint64_t timeout_ns) {
  gate_kernel<<<1, 1, 0, stream>>>(open, timed_out, timeout_ns);
  check(cudaGetLastError(), "launch of the gate kernel");
}

void launch_fill(cudaStream_t stream, void* data, std::size_t bytes, std::uint64_t seed) {
  fill_kernel<<<pattern_blocks(bytes), kPatternThreads, 0, stream>>>(
      static_cast<std::uint64_t*>(data), bytes, seed);
  check(cudaGetLastError(), "launch of the fill kernel");
}

void launch_check(cudaStream_t stream, const void* data, std::size_t bytes, std::uint64_t seed,
                  unsigned long long* mismatches) {
  check_kernel<<<pattern_blocks(bytes), kPatternThreads, 0, stream>>>(
      static_cast<const std::uint64_t*>(data), bytes, seed, mismatches);
  check(cudaGetLastError(), "launch of the check kernel");
}

}  // namespace lanescope
