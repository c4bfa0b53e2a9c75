#include "cuda/chase_kernel.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope {

namespace {

/// Never answered by the first-level cache, and never left out by the compiler.
__device__ std::uint64_t load(std::uint64_t address) {
  std::uint64_t next;
  asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(next) : "l"(address) : "memory");
  return next;
}

/// The clock, read after `value` has arrived: a load does not hold up the instructions
/// behind it until one of them needs what it brings.
__device__ std::uint64_t nanoseconds_after(std::uint64_t value) {
  std::uint64_t now = 0;
  asm volatile(
      "{\n\t"
      ".reg .pred arrived;\n\t"
      "setp.ne.u64 arrived, %1, 0;\n\t"
      "@arrived mov.u64 %0, %globaltimer;\n\t"
      "}"
      : "+l"(now)
      : "l"(value)
      : "memory");
  return now;
}

__global__ void chase_kernel(unsigned target, std::uint64_t* position, int warmup, int hops,
                             ChaseReading* reading) {
  if (blockIdx.x != target) return;
  std::uint64_t at = *position;
  for (int i = 0; i < warmup; ++i) at = load(at);
  const std::uint64_t begin = nanoseconds_after(at);
  at += begin >> 63;  // nothing before the year 2262, but the chain must wait for the clock
#pragma unroll 16
  for (int i = 0; i < hops; ++i) at = load(at);
  const std::uint64_t end = nanoseconds_after(at);
  unsigned multiprocessor;
  asm volatile("mov.u32 %0, %smid;" : "=r"(multiprocessor));
  *reading = {begin, end, at, multiprocessor};
  *position = at;
}

}  // namespace

void launch_chase(cudaStream_t stream, unsigned blocks, unsigned target, std::uint64_t* position,
                  int warmup, int hops, ChaseReading* reading) {
  chase_kernel<<<blocks, 1, 0, stream>>>(target, position, warmup, hops, reading);
  check(cudaGetLastError(), "launch of the chase kernel");
}

}  // namespace lanescope
