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

/// Brings an address by a load.
struct ByLoad {
  __device__ std::uint64_t operator()(std::uint64_t address) { return load(address); }
};

/// Brings an address to shared memory, 16 bytes at a time, and takes it from there.
struct ByBulkCopy {
  std::uint32_t slot, barrier, phase = 0;

  __device__ ByBulkCopy() {
    __shared__ __align__(16) std::uint64_t words[2];
    __shared__ __align__(8) std::uint64_t arrival;
    slot = static_cast<std::uint32_t>(__cvta_generic_to_shared(words));
    barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&arrival));
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }

  __device__ std::uint64_t operator()(std::uint64_t address) {
    std::uint64_t next = 0;
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" ::"r"(barrier) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::
            "r"(slot),
        "l"(address), "r"(barrier)
        : "memory");
    asm volatile(
        "{\n .reg .pred done;\nagain:\n"
        " mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n @!done bra again;\n}" ::"r"(
            barrier),
        "r"(phase)
        : "memory");
    asm volatile("ld.volatile.shared.u64 %0, [%1];" : "=l"(next) : "r"(slot) : "memory");
    phase ^= 1;
#endif
    return next;
  }
};

template <typename Bring>
__global__ void chase_kernel(unsigned target, std::uint64_t* position, int warmup, int hops,
                             ChaseReading* reading) {
  if (blockIdx.x != target) return;
  Bring bring;
  std::uint64_t at = *position;
  for (int i = 0; i < warmup; ++i) at = bring(at);
  const std::uint64_t begin = nanoseconds_after(at);
  at += begin >> 63;  // nothing before the year 2262, but the chain must wait for the clock
#pragma unroll 16
  for (int i = 0; i < hops; ++i) at = bring(at);
  const std::uint64_t end = nanoseconds_after(at);
  unsigned multiprocessor;
  asm volatile("mov.u32 %0, %smid;" : "=r"(multiprocessor));
  *reading = {begin, end, at, multiprocessor};
  *position = at;
}

}  // namespace

void launch_chase(cudaStream_t stream, unsigned blocks, unsigned target, std::uint64_t* position,
                  int warmup, int hops, ChaseReading* reading, bool by_bulk) {
  auto* kernel = by_bulk ? chase_kernel<ByBulkCopy> : chase_kernel<ByLoad>;
  kernel<<<blocks, 1, 0, stream>>>(target, position, warmup, hops, reading);
  check(cudaGetLastError(), "launch of the chase kernel");
}

}  // namespace lanescope
