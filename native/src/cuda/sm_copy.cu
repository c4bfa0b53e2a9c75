#include <algorithm>

#include "build_info.hpp"
#include "cuda/chunk_cursor.hpp"
#include "cuda/cuda_handles.hpp"
#include "cuda/sm_copy.hpp"

namespace lanescope {

namespace {

constexpr int kCopyThreads = 512;
constexpr int kUnroll = 4;  // 16-byte loads in flight for each thread
constexpr std::size_t kTile = std::size_t{kCopyThreads} * kUnroll;
constexpr int kMostStages = 8;
constexpr int kUsualStages = 3;          // or more, for large chunks
constexpr int kLeastStages = 2;          // one that fills while the other drains
constexpr int kStaticShared = 1 << 10;   // enough for the barriers of a bulk copy
constexpr int kSharedBytes = 160 << 10;  // what the stages of a bulk copy share
// Blocks that wait for each other longer than this do not all run.
constexpr std::uint64_t kWindowTimeoutNs = 10'000'000'000;
// More than there are blocks: with it, none is the last to end a window.
constexpr unsigned kApart = 1u << 20;

struct Way {
  char* destination;
  const char* source;
};

struct Work {
  Way ways[kMostSmWays];
  int way_count;
  std::size_t bytes;  // of each way
  int windows;
  int loops;
  WindowTimes times;
};

__device__ std::uint64_t now_ns() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

/// One thread of a block says that its block is through with a window, and waits for the
/// others: blocks that went on alone would leave the slow ones behind, and with them the
/// times of all windows. The last block's time counts. Where one has waited too long, the
/// window gets no time and nobody waits any more: blocks that do not run need an SM.
__device__ void end_window(const WindowTimes& times, int window, bool& together) {
  volatile unsigned* arrived = &times.arrived[window];
  if (atomicAdd(&times.arrived[window], 1u) == gridDim.x - 1)
    times.nanoseconds[window + 1] = now_ns();
  const std::uint64_t begin = now_ns();
  unsigned seen = *arrived;
  for (; together && seen < gridDim.x; seen = *arrived)
    if (now_ns() - begin > kWindowTimeoutNs) atomicAdd(&times.arrived[window], kApart);
  together = together && seen < kApart;
}

__device__ void copy_tails(const Work& work) {
  for (int w = 0; w < work.way_count; ++w)
    for (std::size_t i = work.bytes / 16 * 16 + threadIdx.x; i < work.bytes; i += blockDim.x)
      work.ways[w].destination[i] = work.ways[w].source[i];
}

/// Copies the 16-byte words from `begin` on that are this block's turn, before `end`. Loads
/// pass by the SM's own cache, which would answer for a small source from the second loop on.
__device__ void copy_tile(const Way& way, std::size_t begin, std::size_t end) {
  auto* to = reinterpret_cast<uint4*>(way.destination);
  const auto* from = reinterpret_cast<const uint4*>(way.source);
  if (begin + kTile > end) {  // the last tile is not whole
    for (std::size_t i = begin + threadIdx.x; i < end; i += kCopyThreads) to[i] = __ldcg(&from[i]);
    return;
  }
  uint4 held[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) held[u] = __ldcg(&from[begin + u * kCopyThreads + threadIdx.x]);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) to[begin + u * kCopyThreads + threadIdx.x] = held[u];
}

__device__ void copy_once(const Work& work) {
  const std::size_t count = work.bytes / 16;
  for (std::size_t begin = blockIdx.x * kTile; begin < count; begin += kTile * gridDim.x)
    for (int w = 0; w < work.way_count; ++w) copy_tile(work.ways[w], begin, count);
  if (blockIdx.x == 0) copy_tails(work);
}

/// Does a loop so often as the windows say, and notes when they end.
template <typename Loop>
__device__ void in_windows(const Work& work, Loop once) {
  const bool first = threadIdx.x == 0;
  __shared__ bool together;  // of the first thread alone: a register would be every thread's
  if (first) together = true;
  if (first && blockIdx.x == 0) work.times.nanoseconds[0] = now_ns();
  for (int window = 0; window < work.windows; ++window) {
    for (int loop = 0; loop < work.loops; ++loop) once();
    __syncthreads();
    if (first) end_window(work.times, window, together);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kCopyThreads) loads_kernel(Work work) {
  in_windows(work, [&] { copy_once(work); });
}

__device__ unsigned long long sum_of(const uint4& word) {
  return ((std::uint64_t{word.y} << 32) | word.x) + ((std::uint64_t{word.w} << 32) | word.z);
}

__global__ void __launch_bounds__(kCopyThreads) read_only_kernel(Work work) {
  const Way way = work.ways[0];
  const auto* from = reinterpret_cast<const uint4*>(way.source);
  const std::size_t count = work.bytes / 16;
  unsigned long long sum = 0;
  in_windows(work, [&] {
    std::size_t begin = blockIdx.x * kTile;
    for (; begin + kTile <= count; begin += kTile * gridDim.x) {
      uint4 held[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        held[u] = __ldcg(&from[begin + u * kCopyThreads + threadIdx.x]);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) sum += sum_of(held[u]);
    }
    for (std::size_t i = begin + threadIdx.x; i < count; i += kCopyThreads)
      sum += sum_of(__ldcg(&from[i]));
    if (blockIdx.x == 0)
      for (std::size_t i = count * 16 + threadIdx.x; i < work.bytes; i += kCopyThreads)
        sum += static_cast<unsigned char>(__ldcg(&way.source[i]));
  });
  atomicAdd(reinterpret_cast<unsigned long long*>(way.destination), sum);
}

__global__ void __launch_bounds__(kCopyThreads) write_only_kernel(Work work) {
  static_assert(kTile * 16 == kWrittenPeriod);
  const Way way = work.ways[0];
  const auto* from = reinterpret_cast<const uint4*>(way.source);
  auto* to = reinterpret_cast<uint4*>(way.destination);
  const std::size_t count = work.bytes / 16;
  uint4 held[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::size_t at = u * kCopyThreads + threadIdx.x;
    if (at < count) held[u] = from[at];
  }
  in_windows(work, [&] {
    for (std::size_t begin = blockIdx.x * kTile; begin < count; begin += kTile * gridDim.x)
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::size_t at = begin + u * kCopyThreads + threadIdx.x;
        if (at < count) to[at] = held[u];
      }
    if (blockIdx.x == 0)
      for (std::size_t i = count * 16 + threadIdx.x; i < work.bytes; i += kCopyThreads)
        way.destination[i] = way.source[i % kWrittenPeriod];
  });
}

__device__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A slot of the ring in shared memory, and whether its barrier is in an odd phase.
struct Slot {
  int index = 0;
  std::uint32_t phase = 0;
  __device__ void advance(int stages) {
    if (++index < stages) return;
    index = 0;
    phase ^= 1;
  }
};

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)

__device__ void load_chunk(std::uint32_t slot, std::uint32_t barrier, const char* source,
                           std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(slot),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ void await_chunk(std::uint32_t barrier, std::uint32_t phase) {
  asm volatile(
      "{\n .reg .pred done;\nagain:\n"
      " mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n @!done bra again;\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}

__device__ void store_chunk(char* destination, std::uint32_t slot, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
               "r"(slot), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// The one working thread of a block: keeps a ring of chunks in shared memory full.
__device__ void copy_in_chunks(const Work& work, std::uint32_t chunk, int stages, long long period,
                               int repeats) {
  extern __shared__ __align__(128) char ring[];
  __shared__ __align__(8) std::uint64_t barriers[kMostStages];
  const std::uint32_t slots = shared_address(ring), barrier = shared_address(barriers);
  for (int s = 0; s < stages; ++s)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier + 8 * s));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

  const std::size_t first = std::size_t{blockIdx.x} * chunk, step = std::size_t{gridDim.x} * chunk;
  ChunkCursor loading{first, step, work.bytes / 16 * 16, work.way_count, repeats};
  ChunkCursor storing = loading;
  Slot fill, drain;
  const long long of_window = work.loops * loading.per_loop();
  long long waiting = work.windows * of_window;  // to be loaded
  auto load = [&] {
    load_chunk(slots + fill.index * chunk, barrier + 8 * fill.index,
               work.ways[loading.way].source + loading.offset, loading.bytes(chunk));
    fill.advance(stages);
    loading.advance();
    --waiting;
  };
  for (int s = 0; s < stages - 1 && waiting > 0; ++s) load();
  long long due = clock64();
  bool together = true;
  for (int window = 0; window < work.windows; ++window) {
    for (long long stored = 0; stored < of_window; ++stored) {
      await_chunk(barrier + 8 * drain.index, drain.phase);
      for (due = max(due + period, clock64() - period); clock64() < due;) {
      }
      store_chunk(work.ways[storing.way].destination + storing.offset, slots + drain.index * chunk,
                  storing.bytes(chunk));
      drain.advance(stages);
      storing.advance();
      if (waiting == 0) continue;
      // The next slot is the one before the one just stored: only that store may still read.
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      load();
    }
    end_window(work.times, window, together);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#endif

__global__ void bulk_kernel(Work work, std::uint32_t chunk, int stages, long long period,
                            int repeats) {
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
  const bool idle = std::size_t{blockIdx.x} * chunk >= work.bytes / 16 * 16;
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) work.times.nanoseconds[0] = now_ns();
    copy_tails(work);  // the same bytes in every loop: once will do
  }
  if (threadIdx.x != 0) return;
  if (!idle) return copy_in_chunks(work, chunk, stages, period, repeats);
  bool together = true;
  for (int window = 0; window < work.windows; ++window) end_window(work.times, window, together);
#endif
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// PTX of older GPUs runs on newer ones, but has no bulk copies in it. Throws `Error`.
void require_bulk_copies() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, bulk_kernel), "cudaFuncGetAttributes");
  if (attributes.ptxVersion < 90)
    throw Error("launch_sm_copy", 0, kNoCode,
                "bulk copies need code for compute capability 9.0 or newer, and this build of "
                "lanescope has " +
                    std::string(build_info().code));
}

void launch_bulk(cudaStream_t stream, int device, const Work& work, const SmShape& shape) {
  require_bulk_copies();
  const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - kStaticShared;
  const int usual = std::clamp(kSharedBytes / shape.chunk_bytes, kUsualStages, kMostStages);
  const int stages = std::min(usual, most / shape.chunk_bytes);
  if (stages < kLeastStages)
    throw Error("launch_sm_copy", 0, "chunk too large", "a ring of such chunks fits in no SM");
  check(cudaFuncSetAttribute(bulk_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
        "cudaFuncSetAttribute");
  const double period_ns =
      shape.pace_gbs > 0 ? double{shape.chunk_bytes * 1.0} * shape.sms / shape.pace_gbs : 0;
  const double cycles_per_ns = attribute(cudaDevAttrClockRate, device) * 1e-6;
  const auto chunk = static_cast<std::uint32_t>(shape.chunk_bytes);
  bulk_kernel<<<static_cast<unsigned>(shape.sms), 32, stages * chunk, stream>>>(
      work, chunk, stages, static_cast<long long>(period_ns * cycles_per_ns), shape.chunk_repeats);
}

}  // namespace

void preload_sm_copy() {
  cudaFuncAttributes unused;
  check(cudaFuncGetAttributes(&unused, loads_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&unused, bulk_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&unused, read_only_kernel), "cudaFuncGetAttributes");
  check(cudaFuncGetAttributes(&unused, write_only_kernel), "cudaFuncGetAttributes");
}

void launch_sm_copy(cudaStream_t stream, int device, const std::vector<SmWay>& ways,
                    std::size_t bytes, const SmShape& shape, int windows, int loops,
                    const WindowTimes& times) {
  if (ways.empty() || ways.size() > kMostSmWays)
    throw Error("launch_sm_copy", 0, "too many ways", "a kernel copies one or two ways");
  Work work{{}, static_cast<int>(ways.size()), bytes, windows, loops, times};
  for (std::size_t w = 0; w < ways.size(); ++w)
    work.ways[w] = {static_cast<char*>(ways[w].destination),
                    static_cast<const char*>(ways[w].source)};
  const auto blocks = static_cast<unsigned>(shape.sms);
  if (shape.work == SmWork::read)
    read_only_kernel<<<blocks, kCopyThreads, 0, stream>>>(work);
  else if (shape.work == SmWork::write)
    write_only_kernel<<<blocks, kCopyThreads, 0, stream>>>(work);
  else if (shape.chunk_bytes == 0 || bytes < 16)  // bulk copies move no less
    loads_kernel<<<blocks, kCopyThreads, 0, stream>>>(work);
  else
    launch_bulk(stream, device, work, shape);
  check(cudaGetLastError(), "launch of the copy kernel");
}

}  // namespace lanescope
