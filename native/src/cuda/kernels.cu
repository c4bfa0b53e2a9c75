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
                             unsigned long long* mismatches, std::size_t period) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long wrong = 0;
  for (std::size_t i = first; i < bytes / 8; i += step)
    for (std::uint64_t bits = words[i] ^ pattern_word(seed, i % (period / 8)); bits != 0;
         bits >>= 8)
      wrong += (bits & 0xff) != 0;
  if (first == 0)
    for (std::size_t i = bytes / 8 * 8; i < bytes; ++i)
      wrong += reinterpret_cast<const std::uint8_t*>(words)[i] != pattern_byte(seed, i % period);
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

__global__ void pattern_sum_kernel(std::size_t bytes, std::uint64_t seed, unsigned long long* sum) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t whole = bytes / 16 * 16;  // as a kernel reads them
  unsigned long long own = 0;
  for (std::size_t i = first; i < whole / 8; i += step) own += pattern_word(seed, i);
  if (first == 0)
    for (std::size_t i = whole; i < bytes; ++i) own += pattern_byte(seed, i);
  atomicAdd(sum, own);
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
                  unsigned long long* mismatches, std::size_t period) {
  constexpr std::size_t kNone = std::size_t{1} << 60;
  check_kernel<<<pattern_blocks(bytes), kPatternThreads, 0, stream>>>(
      static_cast<const std::uint64_t*>(data), bytes, seed, mismatches,
      period == 0 ? kNone : period);
  check(cudaGetLastError(), "launch of the check kernel");
}

void launch_pattern_sum(cudaStream_t stream, std::size_t bytes, std::uint64_t seed,
                        unsigned long long* sum) {
  pattern_sum_kernel<<<pattern_blocks(bytes), kPatternThreads, 0, stream>>>(bytes, seed, sum);
  check(cudaGetLastError(), "launch of the sum kernel");
}

}  // namespace lanescope
