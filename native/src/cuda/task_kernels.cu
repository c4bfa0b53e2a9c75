#include "cuda/cuda_handles.hpp"
#include "cuda/task_kernels.hpp"

namespace lanescope {

namespace {

constexpr int kThreads = 256;

__global__ void nothing_kernel() {}

__global__ void busy_kernel(std::uint64_t nanoseconds) {
  std::uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}

/// The loops have a constant end, so that they are unrolled: arrays of pointers that are looked up
/// by a number which is not known would lie in each thread's own memory, whose stores go the same
/// way as those to the host.
__global__ void moves_kernel(Moves moves) {
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= moves.count) return;
  double sum = 0;
#pragma unroll
  for (int array = 0; array < kMostMoved; ++array)
    if (array < moves.reads) sum += moves.in[array][i];
  if (moves.work > 0) {
    auto x = static_cast<float>(sum);
    for (int step = 0; step < moves.work; ++step) x = fmaf(x, 0.999F, 1.0F);
    sum += static_cast<double>(x);
  }
#pragma unroll
  for (int array = 0; array < kMostMoved; ++array)
    if (array < moves.writes) moves.out[array][i] = sum + array;
  // Without writes the sum would not be needed, and the reads be left out. Nobody fills
  // arrays with this number.
  if (moves.writes == 0 && sum == -1.2345678e300) moves.out[0][i] = sum;
}

}  // namespace

void preload_task_kernels() {
  cudaFuncAttributes unused;
  check(cudaFuncGetAttributes(&unused, nothing_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&unused, busy_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&unused, moves_kernel), "cudaFuncGetAttributes");
}

void launch_nothing(cudaStream_t stream) {
  nothing_kernel<<<1, 1, 0, stream>>>();
  check(cudaGetLastError(), "launch of an empty kernel");
}

void launch_busy(cudaStream_t stream, std::uint64_t nanoseconds) {
  int device = 0, processors = 0, threads = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device),
        "cudaDeviceGetAttribute");
  const int blocks = processors * (threads / kThreads);
  busy_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(nanoseconds);
  check(cudaGetLastError(), "launch of a busy kernel");
}

void launch_moves(cudaStream_t stream, const Moves& moves) {
  if (moves.count == 0) return;
  const auto blocks = (moves.count + kThreads - 1) / kThreads;
  moves_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(moves);
  check(cudaGetLastError(), "launch of a kernel that moves");
}

}  // namespace lanescope
