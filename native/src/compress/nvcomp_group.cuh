#pragma once

#include "compress/device_decode.cuh"
#include "compress/device_group.cuh"
#include "compress/nvcomp_chunk.hpp"
#include "compress/nvcomp_kernels.hpp"

namespace lanescope::compress {

// What a group of warps does with a block that nvCOMP codes or has coded, one after another.

/// Notes what is wrong with a block, if it is the lowest one.
__device__ inline void keep_first(unsigned long long* lowest, std::size_t block, int status) {
  atomicMin(lowest, static_cast<unsigned long long>(block) << 32 | static_cast<unsigned>(status));
}

/// Adds up what the warps of a group bring; the leading thread gets it.
__device__ inline std::uint64_t sum_of_group(const Group& group, std::uint64_t mine) {
  const std::uint64_t sum = sum_of(mine);
  group.sync();  // Nobody reads what was there before any more.
  if (group.lanes.lane == 0) group.shared->sums[0][group.warp] = sum;
  group.sync();
  std::uint64_t all = 0;
  if (group.leads())
    for (std::size_t warp = 0; warp < kStrips; ++warp) all += group.shared->sums[0][warp];
  group.sync();
  return all;
}

/// Calls `take(unit, bytes)` for all 16 bytes of a block that are this thread's, and returns what
/// it adds to the sum of the block's parts, of which the first one is at `place`.
template <typename Take>
__device__ std::uint64_t take_units(const Group& group, const std::byte* from, std::uint32_t bytes,
                                    std::uint32_t place, Take take) {
  const StripPart mine = StripPart::of(group.warp, bytes);
  const std::uint32_t first = mine.begin / 16;
  std::uint64_t sum = 0;
  if (mine.bytes == 0) return sum;
  for_units(
      group.lanes, from + mine.begin, mine.bytes,
      [&](uint4 unit, std::uint32_t number) {
        add_parts(sum, unit, place + 2 * (first + number));
        take(unit, first + number, 16U);
      },
      [&](uint4 unit, std::uint32_t number, std::uint32_t rest) {
        add_parts(sum, unit, place + 2 * (first + number), rest);
        take(unit, first + number, rest);
      });
  return sum;
}

/// The sum of the parts of what follows the checksum in a payload; the leading thread gets it.
__device__ inline std::uint64_t sum_of_chunk(const Group& group, const std::byte* chunk,
                                             std::uint32_t bytes, std::uint64_t about) {
  const std::uint64_t sum = sum_of_group(
      group, take_units(group, chunk, bytes, 1, [](uint4, std::uint32_t, std::uint32_t) {}));
  return sum + checksum_part(about, 0) + checksum_begin(sizeof about + bytes);
}

/// Puts the payloads and entries of blocks to where `Settling` says.
struct BlockSettler {
  Group group;
  Settling to;

  __device__ void settle(std::size_t block, std::uint32_t bytes) const {
    const std::byte* from = to.data + block * kBlockBytes;
    std::byte* slot = to.payloads + block * to.slot_bytes;
    const std::uint32_t first = bytes < to.value_bytes ? bytes : to.value_bytes;
    const std::uint64_t pattern = repeat(load_part(from, first), first);
    bool same = bytes > to.value_bytes;
    const std::uint64_t sum = sum_of_group(
        group,
        take_units(group, from, bytes, 0, [&](uint4 unit, std::uint32_t, std::uint32_t there) {
          same = same && low_word(unit) == (pattern & low_bytes(there < 8 ? there : 8)) &&
                 high_word(unit) == (there > 8 ? pattern & low_bytes(there - 8) : 0);
        }));
    const bool constant = !group.any(!same);
    const std::uint32_t chunk = constant ? 0 : coded_bytes(block);
    const bool coded = chunk > 0 && padded(sizeof(ChunkFront) + chunk) < padded(bytes);
    std::uint32_t used = bytes;
    if (constant) {
      used = to.value_bytes;
      if (group.leads())
        *reinterpret_cast<uint4*>(slot) = unit_of(pattern & low_bytes(to.value_bytes), 0);
    } else if (coded) {
      used = static_cast<std::uint32_t>(sizeof(ChunkFront)) + chunk;
      seal(slot, chunk, bytes);
    } else {
      copy(from, slot, bytes);
    }
    if (!group.leads()) return;
    const auto mode = constant ? BlockMode::constant : coded ? BlockMode::coded : BlockMode::raw;
    const std::uint64_t about = checksum_begin(bytes) + checksum_place(to.binding, block);
    to.entries[block] = {Descriptor::of(mode, used, checksum_end(sum + about)),
                         block * to.slot_bytes};
    atomicAdd(to.used, static_cast<unsigned long long>(padded(used)));
  }

 private:
  /// What nvCOMP made of a block; 0 where it was not given to it.
  __device__ std::uint32_t coded_bytes(std::size_t block) const {
    if (block >= to.chunks) return 0;
    if (to.statuses[block] == 0) return static_cast<std::uint32_t>(to.chunk_bytes[block]);
    if (group.leads()) keep_first(to.failed, block, to.statuses[block]);
    return 0;
  }

  /// Writes what stands before a chunk, and the zeros behind it.
  __device__ void seal(std::byte* slot, std::uint32_t chunk, std::uint32_t bytes) const {
    const std::uint64_t about = about_chunk(to.version, to.codec, to.dtype, bytes);
    std::byte* begin = slot + sizeof(ChunkFront);
    const std::uint64_t sum = sum_of_chunk(group, begin, chunk, about);
    if (group.leads()) *reinterpret_cast<uint4*>(slot) = unit_of(sum, about);
    const std::uint32_t i = chunk + static_cast<std::uint32_t>(group.lanes.lane);
    if (group.warp == 0 && i < padded(chunk)) begin[i] = std::byte{0};
  }

  __device__ void copy(const std::byte* from, std::byte* slot, std::uint32_t bytes) const {
    auto* units = reinterpret_cast<uint4*>(slot);
    take_units(group, from, bytes, 0, [&](uint4 unit, std::uint32_t number, std::uint32_t) {
      units[number] = unit;  // The last one comes filled up with zeros.
    });
  }
};

/// Puts blocks back that nvCOMP did not code, and looks whether it can be given the others.
struct BlockChecker {
  GroupDecoder<NoStrip> others;
  Checking of;

  /// Returns, in the leading thread, whether the block is as it was.
  __device__ bool check(std::size_t block, std::uint32_t bytes) {
    const Entry entry = of.entries[block];
    if (entry.descriptor.mode() != static_cast<std::uint8_t>(BlockMode::coded))
      return others.decode(entry, of.out + block * kBlockBytes, bytes, block) == Wrong::nothing;
    const Group& group = others.group;
    const auto size = static_cast<std::uint32_t>(entry.descriptor.payload_bytes());
    if (entry.offset % 16 != 0 || entry.offset > of.room || padded(size) > of.room - entry.offset ||
        size <= sizeof(ChunkFront) || size > kBlockBytes || bytes % of.value_bytes != 0)
      return false;
    const std::byte* payload = of.payloads + entry.offset;
    const uint4 front = *reinterpret_cast<const uint4*>(payload);
    const std::byte* chunk = payload + sizeof(ChunkFront);
    const auto chunk_bytes = static_cast<std::uint32_t>(size - sizeof(ChunkFront));
    const std::uint32_t i = chunk_bytes + static_cast<std::uint32_t>(group.lanes.lane);
    const bool filled = i < padded(chunk_bytes) && chunk[i] != std::byte{0};
    const std::uint64_t sum = sum_of_chunk(group, chunk, chunk_bytes, high_word(front));
    const bool wrong = group.any(filled);
    return !wrong && sum == low_word(front) && fits(high_word(front), of.codec, of.dtype, bytes);
  }
};

/// Whether a block that nvCOMP decoded has the checksum that it should have; the leading thread
/// gets it.
__device__ inline bool has_checksum(const Group& group, const Checking& of, std::size_t block,
                                    std::uint32_t bytes) {
  const std::uint64_t sum =
      sum_of_group(group, take_units(group, of.out + block * kBlockBytes, bytes, 0,
                                     [](uint4, std::uint32_t, std::uint32_t) {}));
  const std::uint64_t about = checksum_begin(bytes) + checksum_place(of.binding, block);
  return checksum_end(sum + about) == of.entries[block].descriptor.checksum;
}

}  // namespace lanescope::compress
