#pragma once

#include "compress/codec_kernel.cuh"
#include "compress/device_decode.cuh"
#include "compress/device_progress.cuh"

namespace lanescope::compress {

/// Counts a block that is wrong, and keeps the lowest one. `what` is a lock meanwhile.
inline __device__ void report(Fault* fault, unsigned int block, Wrong what) {
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

/// Decodes on one group of warps a CTA: CTAs of several kernels share an SM, and one that has
/// nothing to do any more makes room.
template <typename Strip, bool update>
__global__ void __launch_bounds__(kGroupThreads, ShapeOf<Strip, update>::kDecodeGroups)
    decode_kernel(const Entry* entries, const std::byte* payloads, std::size_t room, std::byte* out,
                  std::size_t bytes, Fault* fault, Settings settings, std::uint32_t value_bytes,
                  Binding binding, Arrival arrival, Chosen chosen, PutBase put) {
  using Shape = ShapeOf<Strip, update>;
  extern __shared__ uint4 shared_memory[];
  __shared__ GroupShared shared;
  const Group group = Group::only(&shared);
  auto* staging = reinterpret_cast<std::byte*>(shared_memory) +
                  group.warp * static_cast<int>(Shape::kDecodeBytes);
  GroupDecoder<Strip, update> decoder{group,    staging,     payloads, room,
                                      settings, value_bytes, binding,  0};
  if constexpr (update) {
    decoder.put = put;
    if constexpr (!Shape::kOnce) decoder.put.values += blockIdx.x * kBlockBytes;
  }
  const std::size_t count = chosen.blocks != nullptr ? chosen.count : blocks_of(bytes);
  for (std::size_t place = blockIdx.x; place < count; place += gridDim.x) {
    const std::size_t block = chosen.blocks != nullptr ? chosen.blocks[place] : place;
    Wrong wrong = Wrong::late;
    if (arrival.stored == nullptr || !group.any(group.leads() && !await(arrival, block)))
      wrong = decoder.decode(entries[block], out + place * kBlockBytes,
                             bytes_of_block(bytes, block), block);
    if (group.leads() && wrong == Wrong::base)
      *put.fault = {1, 1, static_cast<unsigned int>(Wrong::base)};
    else if (group.leads() && wrong != Wrong::nothing)
      report(fault, static_cast<unsigned int>(block), wrong);
  }
}

template <typename Strip, bool update>
void launch_decode(const Launch& launch, const Decoding& decoding) {
  decode_kernel<Strip, update><<<launch.ctas, launch.threads, launch.shared_bytes, launch.stream>>>(
      decoding.entries, decoding.payloads, decoding.room, decoding.out, decoding.bytes,
      decoding.fault, decoding.settings, decoding.value_bytes, decoding.binding, decoding.arrival,
      decoding.chosen, decoding.put);
}

template <typename Strip>
struct StripKernel<Decoding, Strip> {
  static Kernel<Decoding> get(bool update) { return update ? of<true>() : of<false>(); }

 private:
  template <bool update>
  static Kernel<Decoding> of() {
    using Shape = ShapeOf<Strip, update>;
    return {reinterpret_cast<const void*>(&decode_kernel<Strip, update>), Shape::kDecodeGroups,
            Shape::kDecodeBytes * kStrips, true, &launch_decode<Strip, update>};
  }
};

}  // namespace lanescope::compress
