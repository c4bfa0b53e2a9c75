#pragma once

#include "compress/codec_kernel.cuh"
#include "compress/device_encode.cuh"

namespace lanescope::compress {

/// Codes on groups of warps, and one more warp where somebody follows.
template <typename Strip, bool update>
__global__ void __launch_bounds__(encode_threads<Strip, ShapeOf<Strip, update>>(), 1)
    encode_kernel(const std::byte* data, const std::byte* const* places, std::size_t bytes,
                  Sink sink, Settings settings, std::uint32_t value_bytes) {
  extern __shared__ uint4 shared_memory[];
  __shared__ GroupShared groups[kMostGroups];
  const int group_count = static_cast<int>(blockDim.x) / kGroupThreads;
  const Group group = Group::mine(groups);
  if (sink.progress.stored != nullptr) {
    if (threadIdx.x < kMostGroups) groups[threadIdx.x].note = kNoNote;
    __syncthreads();
    if (group.number == group_count) return mark_for(groups, group_count, sink.progress);
  }
  if (sink.apart_clocks > 0) stagger(group.number, sink.apart_clocks);
  using Shape = ShapeOf<Strip, update>;
  auto* staging = reinterpret_cast<std::byte*>(shared_memory) +
                  group.number * static_cast<int>(Shape::kEncodeBytes * kStrips);
  GroupEncoder<Strip, update> encoder{group, staging, sink, settings, value_bytes};
  if constexpr (update && !Shape::kOnce)
    encoder.differences =
        sink.taken.differences + (group.number * gridDim.x + blockIdx.x) * kBlockBytes;
  // Blocks are taken in order, so that payloads are nearly in order, too, whatever holds a group
  // up. All SMs get one before any gets a second one.
  const std::size_t blocks = blocks_of(bytes);
  std::size_t at_first = std::size_t{blockDim.x / kGroupThreads} * gridDim.x;
  std::size_t begin = group.number * gridDim.x + blockIdx.x;
  if (sink.progress.stored != nullptr) {
    // A CTA that has no SM yet must hold no block back: others wait for it that may keep the SM.
    if (group.leads()) group.shared->taken = atomicAdd(sink.used, kOneTaken) >> kUsedBits;
    group.sync();
    at_first = 0;
    begin = group.shared->taken;
  }
  const auto values_of = [&](std::size_t block) {
    return places != nullptr ? places[block] : data + block * kBlockBytes;
  };
  const auto report = [&](std::size_t block) {
    if (sink.progress.taken != nullptr && block + sink.progress.left >= blocks && group.leads())
      mark_alone(sink.progress.taken, sink.progress.mark);
  };
  for (std::size_t block = begin; block < blocks; block = at_first + group.shared->taken) {
    report(block);
    encoder.encode(values_of(block), bytes_of_block(bytes, block), block,
                   [&] {  // What the warp reads next is on its way while it stores. Not values and
                          // base: so much would push kept differences out of the L2 cache.
                     if constexpr (update) return;
                     const std::size_t next = at_first + group.shared->taken;
                     if (next >= blocks || group.lanes.lane != 0) return;
                     const StripPart part = StripPart::of(group.warp, bytes_of_block(bytes, next));
                     bring_near(values_of(next) + part.begin, part.bytes);
                   });
  }
  report(blocks);
  encoder.finish();
}

template <typename Strip, bool update>
void launch_encode(const Launch& launch, const Encoding& encoding) {
  encode_kernel<Strip, update><<<launch.ctas, launch.threads, launch.shared_bytes, launch.stream>>>(
      encoding.values.data, encoding.values.places, encoding.bytes, encoding.sink,
      encoding.settings, encoding.value_bytes);
}

template <typename Strip>
struct StripKernel<Encoding, Strip> {
  static Kernel<Encoding> get(bool update) { return update ? of<true>() : of<false>(); }

 private:
  template <bool update>
  static Kernel<Encoding> of() {
    using Shape = ShapeOf<Strip, update>;
    return {reinterpret_cast<const void*>(&encode_kernel<Strip, update>),
            Shape::kEncodeGroups,
            Shape::kEncodeBytes * kStrips,
            false,
            &launch_encode<Strip, update>,
            followed_groups<Strip>(Shape::kEncodeGroups)};
  }
};

}  // namespace lanescope::compress
