#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "lanescope/compress/device_decode.cuh"
#include "lanescope/compress/device_encode.cuh"
#include "lanescope/compress/device_kernels.hpp"
#include "lanescope/compress/strips.hpp"
#include "lanescope/cuda_handles.hpp"

namespace lanescope::compress {

namespace {

/// Bytes and taken blocks share a word.
constexpr std::size_t kMostBytes = std::size_t{1} << (kUsedBits - 1);

extern __shared__ uint4 shared_memory[];

__device__ std::uint32_t bytes_of_block(std::size_t bytes, std::size_t block) {
  const std::size_t left = bytes - block * kBlockBytes;
  return static_cast<std::uint32_t>(left < kBlockBytes ? left : kBlockBytes);
}

/// Calls `step(block)` for the blocks of a group. All SMs get one before any gets a second one.
template <typename Step>
__device__ __forceinline__ void for_blocks(int group, std::size_t bytes, Step step) {
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const std::size_t groups = blockDim.x / kGroupThreads;
  for (std::size_t block = group * gridDim.x + blockIdx.x; block < blocks;
       block += groups * gridDim.x)
    step(block);
}

template <typename Strip>
__global__ void __launch_bounds__(DeviceShape<Strip>::kEncodeGroups* kGroupThreads, 1)
    encode_kernel(const std::byte* data, std::size_t bytes, Sink sink, Settings settings,
                  std::uint32_t value_bytes) {
  __shared__ GroupShared groups[kMostGroups];
  const Group group = Group::mine(groups);
  auto* staging = reinterpret_cast<std::byte*>(shared_memory) +
                  group.number * static_cast<int>(DeviceShape<Strip>::kEncodeRoom * kStrips);
  GroupEncoder<Strip> encoder{group, staging, sink, settings, value_bytes};
  // Blocks are taken in order, so that payloads are nearly in order, too, whatever holds a group
  // up.
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const std::size_t at_first = std::size_t{blockDim.x / kGroupThreads} * gridDim.x;
  for (std::size_t block = group.number * gridDim.x + blockIdx.x; block < blocks;
       block = at_first + group.shared->taken) {
    encoder.encode(data + block * kBlockBytes, bytes_of_block(bytes, block), sink.entries + block,
                   [&] {  // What the warp reads next is on its way while it stores.
                     const std::size_t next = at_first + group.shared->taken;
                     if (next >= blocks || group.lanes.lane != 0) return;
                     const StripPart part = StripPart::of(group.warp, bytes_of_block(bytes, next));
                     bring_near(data + next * kBlockBytes + part.begin, part.bytes);
                   });
  }
}

/// Counts a block that is wrong, and keeps the lowest one. `what` is a lock meanwhile.
__device__ void report(Fault* fault, unsigned int block, Wrong what) {
  constexpr unsigned int kLocked = 0x80000000;
  atomicAdd(&fault->blocks, 1U);
  unsigned int seen = atomicExch(&fault->what, kLocked);
  for (; seen == kLocked; seen = atomicExch(&fault->what, kLocked)) __nanosleep(100);
  __threadfence();
  const unsigned int first = atomicAdd(&fault->first_block, 0U);
  if (first == 0 || block + 1 < first) {
    atomicExch(&fault->first_block, block + 1);
    seen = static_cast<unsigned int>(what);
  }
  __threadfence();
  atomicExch(&fault->what, seen);
}

template <typename Strip>
__global__ void __launch_bounds__(DeviceShape<Strip>::kDecodeGroups* kGroupThreads, 1)
    decode_kernel(const Entry* entries, const std::byte* payloads, std::size_t room, std::byte* out,
                  std::size_t bytes, Fault* fault, Settings settings, std::uint32_t value_bytes) {
  using Shape = DeviceShape<Strip>;
  __shared__ GroupShared groups[kMostGroups];
  const Group group = Group::mine(groups);
  auto* staging = reinterpret_cast<std::byte*>(shared_memory) +
                  static_cast<int>(threadIdx.x) / kLanes *
                      static_cast<int>(Shape::kDecodeRoom + Shape::kTileBytes);
  GroupDecoder<Strip> decoder{group, staging, payloads, room, settings, value_bytes, 0};
  for_blocks(group.number, bytes, [&](std::size_t block) {
    const Wrong wrong =
        decoder.decode(entries[block], out + block * kBlockBytes, bytes_of_block(bytes, block));
    if (group.leads() && wrong != Wrong::nothing)
      report(fault, static_cast<unsigned int>(block), wrong);
  });
}

/// How a kernel is laid out over the SMs of a device.
struct KernelLayout {
  int sms;  ///< That there are.
  int groups;
  std::size_t shared_bytes;
};

/// Lays out a kernel whose groups of warps take so much shared memory each. Throws `Error`.
template <auto kernel>
KernelLayout lay_out(int device, int groups, std::size_t shared_bytes) {
  int all = 0, most = 0;
  check(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "cudaDeviceGetAttribute");
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  const std::size_t there = static_cast<std::size_t>(most) - attributes.sharedSizeBytes;
  if (shared_bytes > 0) groups = std::min(groups, static_cast<int>(there / shared_bytes));
  if (groups < 1)
    throw Error("compress", 0, "bad choice",
                "the SMs of this GPU have " + std::to_string(most) +
                    " bytes of shared memory, too few for this codec; compress on the host");
  const std::size_t taken = shared_bytes * static_cast<std::size_t>(groups);
  if (taken > 0)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(taken)),
          "cudaFuncSetAttribute");
  return {all, groups, taken};
}

/// The same for the current device, found out once: that takes as long as some launches, of which
/// channels make many.
template <auto kernel>
KernelLayout layout_on_device(int groups, std::size_t shared_bytes) {
  static std::mutex mutex;
  static std::map<int, KernelLayout> known;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known.emplace(device, lay_out<kernel>(device, groups, shared_bytes)).first->second;
}

/// CTAs of a launch: one an SM, as many as may be used and have something to do.
unsigned int ctas_of(const KernelLayout& layout, std::size_t bytes, int sms) {
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  const auto wanted = static_cast<std::size_t>(sms > 0 ? std::min(sms, layout.sms) : layout.sms);
  return static_cast<unsigned int>(std::min(wanted, blocks));
}

unsigned int threads_of(const KernelLayout& layout) {
  return static_cast<unsigned int>(layout.groups * kGroupThreads);
}

/// Calls `go` with an object of the class that codes such values, `NoStrip` where none does.
template <typename Go>
void with_any_strip(const Choice& choice, Go go) {
  require_possible(choice);
  if (!with_strip(choice.codec, choice.dtype, go)) go(NoStrip{});
}

void require_aligned(const void* memory) {
  if (reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
    throw Error("compress", 0, "bad values",
                "an array in a GPU's memory has to begin at a multiple of 16 bytes");
}

}  // namespace

void encode_blocks(const Choice& choice, const std::byte* data, std::size_t bytes, const Sink& sink,
                   int sms, cudaStream_t stream) {
  require_aligned(data);
  require_aligned(sink.payloads);
  if (bytes >= kMostBytes)
    throw Error("compress", 0, "bad values", "an array of 512 GiB or more has to go in parts");
  with_any_strip(choice, [&]<typename Strip>(Strip) {
    using Shape = DeviceShape<Strip>;
    if (bytes == 0) return;
    const KernelLayout layout =
        layout_on_device<encode_kernel<Strip>>(Shape::kEncodeGroups, Shape::kEncodeRoom * kStrips);
    encode_kernel<Strip>
        <<<ctas_of(layout, bytes, sms), threads_of(layout), layout.shared_bytes, stream>>>(
            data, bytes, sink, Settings{choice.dimensionality},
            static_cast<std::uint32_t>(bytes_of(choice.dtype)));
    check(cudaGetLastError(), "encode_kernel");
  });
}

void decode_blocks(const Choice& choice, const Entry* entries, const std::byte* payloads,
                   std::size_t room, std::byte* out, std::size_t bytes, Fault* fault, int sms,
                   cudaStream_t stream) {
  require_aligned(payloads);
  require_aligned(out);
  with_any_strip(choice, [&]<typename Strip>(Strip) {
    using Shape = DeviceShape<Strip>;
    if (bytes == 0) return;
    const KernelLayout layout = layout_on_device<decode_kernel<Strip>>(
        Shape::kDecodeGroups, (Shape::kDecodeRoom + Shape::kTileBytes) * kStrips);
    decode_kernel<Strip>
        <<<ctas_of(layout, bytes, sms), threads_of(layout), layout.shared_bytes, stream>>>(
            entries, payloads, room, out, bytes, fault, Settings{choice.dimensionality},
            static_cast<std::uint32_t>(bytes_of(choice.dtype)));
    check(cudaGetLastError(), "decode_kernel");
  });
}

}  // namespace lanescope::compress
