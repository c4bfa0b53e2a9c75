#pragma once

#include "compress/device_blocks.hpp"
#include "compress/device_group.cuh"
#include "compress/device_progress.cuh"
#include "compress/device_shape.hpp"
#include "compress/strip_codec.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {

/// Codes blocks, one after another, by one group of warps; of an update their differences.
template <typename Strip, bool update = false>
struct GroupEncoder {
  using Word = typename Strip::Word;
  using Shape = DeviceShape<Strip>;

  Group group;
  std::byte* staging;  ///< In shared memory: `Shape::kEncodeRoom` for each warp.
  Sink sink;
  Settings settings;
  std::uint32_t value_bytes;
  std::uint32_t untold = kNoNote;    ///< 1 + the block that is stored, and not noted yet.
  std::byte* differences = nullptr;  ///< Of an update: the group's own, of a block.

  /// Calls `ahead` when the block's values were read for the last time, but where it is stored raw.
  template <typename Ahead>
  __device__ void encode(const std::byte* in, std::uint32_t bytes, std::size_t block, Ahead ahead) {
    const StripPart mine = StripPart::of(group.warp, bytes);
    std::uint64_t first = first_value(in, bytes);
    bool constant;
    if constexpr (update) {
      const std::byte* base = sink.taken.base + block * kBlockBytes;
      first = sink.taken.differing.take(first, first_value(base, bytes));
      constant = look_over(in, base, mine, repeat(first, value_bytes));
      in = differences;
    } else {
      constant = look_over(in, mine, repeat(first, value_bytes));
    }
    constant = constant && bytes > value_bytes;
    note();  // The block before: all warps have come by what they stored of it.
    untold = static_cast<std::uint32_t>(block) + 1;
    Descriptor descriptor = Descriptor::of(BlockMode::raw, bytes, 0);
    bool overfull = false;
    if (constant) {
      descriptor = Descriptor::of(BlockMode::constant, value_bytes, 0);
    } else if constexpr (Shape::kCodes) {
      if (bytes % sizeof(Word) == 0) {
        const std::uint32_t size = code_strips(in, mine, overfull);
        if (padded(size) < padded(bytes)) descriptor = Descriptor::of(BlockMode::coded, size, 0);
      }
    }
    std::byte* out = place(descriptor, bytes, block);
    ahead();
    if (out == nullptr) return;
    if (descriptor.mode() == static_cast<std::uint8_t>(BlockMode::raw)) {
      copy_raw(in + mine.begin, mine.bytes, out + mine.begin);
    } else if (descriptor.mode() == static_cast<std::uint8_t>(BlockMode::constant)) {
      if (group.leads())
        *reinterpret_cast<uint4*>(out) = unit_of(first & low_bytes(value_bytes), 0);
    } else if constexpr (Shape::kCodes) {
      if (overfull)
        code_one_by_one(in, bytes, out);
      else
        copy_strips(out);
    }
  }

  /// After the last block.
  __device__ void finish() {
    if (sink.progress.stored == nullptr) return;
    group.sync();
    note();
    if (group.leads()) leave_note(&group.shared->note, kOver);
  }

 private:
  __device__ __forceinline__ void note() {
    if (sink.progress.stored == nullptr || untold == kNoNote) return;
    if (group.leads()) leave_note(&group.shared->note, untold);
    __syncwarp();  // or the warp goes on in two parts
  }

  __device__ std::uint64_t first_value(const std::byte* in, std::uint32_t bytes) const {
    return bytes >= 8 ? *reinterpret_cast<const std::uint64_t*>(in) : load_part(in, bytes);
  }

  /// Finds the part's share of the checksum, and tells whether the block repeats `pattern`.
  __device__ __forceinline__ bool look_over(const std::byte* in, StripPart mine,
                                            std::uint64_t pattern) {
    std::uint64_t sum = 0, other = 0;
    const std::uint32_t place = mine.begin / 8;
    for_units(
        group.lanes, in + mine.begin, mine.bytes,
        [&](uint4 unit, std::uint32_t number) {
          add_parts(sum, unit, place + 2 * number);
          other |= (low_word(unit) ^ pattern) | (high_word(unit) ^ pattern);
        },
        [&](uint4 unit, std::uint32_t number, std::uint32_t bytes) {
          add_parts(sum, unit, place + 2 * number, bytes);
          other |= (low_word(unit) ^ pattern) & low_bytes(bytes < 8 ? bytes : 8);
          if (bytes > 8) other |= (high_word(unit) ^ pattern) & low_bytes(bytes - 8);
        });
    sum = sum_of(sum);
    if (group.lanes.lane == 0) group.shared->sums[0][group.warp] = sum;
    return !group.any(other != 0);
  }

  /// The same of differences, which it keeps; and finds the share of the base's sum.
  __device__ __forceinline__ bool look_over(const std::byte* in, const std::byte* base,
                                            StripPart mine, std::uint64_t pattern) {
    std::uint64_t sum = 0, base_sum = 0, other = 0;
    const std::uint32_t place = mine.begin / 8;
    const Differing differing = sink.taken.differing;
    auto* to = reinterpret_cast<uint4*>(differences + mine.begin);
    for_unit_pairs(
        group.lanes, in + mine.begin, base + mine.begin, mine.bytes,
        [&](uint4 values, uint4 of, std::uint32_t number) {
          const uint4 unit = take_unit(differing, values, of);
          to[number] = unit;
          add_parts(sum, unit, place + 2 * number);
          add_parts(base_sum, of, place + 2 * number);
          other |= (low_word(unit) ^ pattern) | (high_word(unit) ^ pattern);
        },
        [&](uint4 values, uint4 of, std::uint32_t number, std::uint32_t bytes) {
          const uint4 unit = take_unit(differing, values, of);
          to[number] = unit;
          add_parts(sum, unit, place + 2 * number, bytes);
          add_parts(base_sum, of, place + 2 * number, bytes);
          other |= (low_word(unit) ^ pattern) & low_bytes(bytes < 8 ? bytes : 8);
          if (bytes > 8) other |= (high_word(unit) ^ pattern) & low_bytes(bytes - 8);
        });
    sum = sum_of(sum);
    base_sum = sum_of(base_sum);
    if (group.lanes.lane == 0) {
      group.shared->sums[0][group.warp] = sum;
      group.shared->base_sums[group.warp] = base_sum;
    }
    return !group.any(other != 0);
  }

  /// Codes each warp's part into its staging, and returns the bytes of the payload. `overfull` is
  /// set where a strip did not fit there.
  __device__ __forceinline__ std::uint32_t code_strips(const std::byte* in, StripPart mine,
                                                       bool& overfull) {
    std::uint32_t used = 0;
    if (mine.bytes > 0)
      used = Strip::encode(group.lanes, reinterpret_cast<const Word*>(in + mine.begin),
                           static_cast<std::uint32_t>(mine.bytes / sizeof(Word)), settings,
                           staging_of(group.warp), Shape::kEncodeRoom);
    if (group.lanes.lane == 0) group.shared->used[group.warp] = used;
    group.sync();
    std::uint32_t size = kStripTable;
#pragma unroll
    for (std::size_t strip = 0; strip < kStrips; ++strip) {
      size += group.shared->used[strip];
      overfull = overfull || group.shared->used[strip] > Shape::kEncodeRoom;
    }
    return size;
  }

  /// Takes room for a payload, and the group's next block at the same time, and writes the entry;
  /// null where there is no room.
  __device__ std::byte* place(Descriptor descriptor, std::uint32_t bytes, std::size_t block) {
    const std::size_t size = padded(descriptor.payload_bytes());
    if (group.leads()) {
      std::uint64_t sum = checksum_begin(bytes) + checksum_place(sink.binding, block);
#pragma unroll
      for (std::size_t strip = 0; strip < kStrips; ++strip) sum += group.shared->sums[0][strip];
      descriptor.checksum = checksum_end(sum);
      const unsigned long long used = atomicAdd(sink.used, kOneTaken + size);
      const std::uint64_t offset = bytes_used(used);
      sink.entries[block] = {descriptor, offset};
      if constexpr (update) {
        std::uint64_t base_sum = checksum_begin(bytes);
#pragma unroll
        for (std::size_t strip = 0; strip < kStrips; ++strip)
          base_sum += group.shared->base_sums[strip];
        if (sink.taken.sums != nullptr) sink.taken.sums[block] = base_sum;
      }
      group.shared->place = offset;
      group.shared->taken = used >> kUsedBits;
      std::uint32_t begin = kStripTable / 4;
#pragma unroll
      for (std::size_t strip = 0; strip < kStrips; ++strip) {
        group.shared->begin[strip] = begin;
        begin += group.shared->used[strip] / 4;
      }
      group.shared->begin[kStrips] = begin;
    }
    group.sync();
    const std::uint64_t offset = group.shared->place;
    return offset + size <= sink.room ? sink.payloads + offset : nullptr;
  }

  __device__ void copy_raw(const std::byte* in, std::uint32_t bytes, std::byte* out) const {
    auto* units = reinterpret_cast<uint4*>(out);
    const auto store = [&](uint4 unit, std::uint32_t number, std::uint32_t = 16) {
      units[number] = unit;
    };
    for_units(group.lanes, in, bytes, store, store);
  }

  __device__ std::uint8_t* staging_of(int strip) const {
    return reinterpret_cast<std::uint8_t*>(staging) +
           static_cast<std::uint32_t>(strip) * Shape::kEncodeRoom;
  }

  /// A word of the table of strips.
  __device__ std::uint32_t table(std::uint32_t word) const {
    return group.shared->used[2 * word] / kStripUnit | group.shared->used[2 * word + 1] / kStripUnit
                                                           << 16;
  }

  /// Copies table and strips out of the staging.
  __device__ void copy_strips(std::byte* out) const {
    const std::uint32_t begin = group.shared->begin[group.warp];
    const std::uint32_t end = group.shared->begin[group.warp + 1];
    const std::uint32_t first = (begin + 3) / 4, last = end / 4;  // Whole units of one strip.
    const std::uint32_t shift = 4 * first - begin;
    auto* to = reinterpret_cast<uint4*>(out) + first;
    const auto* from = reinterpret_cast<const uint4*>(staging_of(group.warp));
    const int count = static_cast<int>(last) - static_cast<int>(first);
    if (shift == 0) copy_shifted<0>(from, to, count);
    if (shift == 1) copy_shifted<1>(from, to, count);
    if (shift == 2) copy_shifted<2>(from, to, count);
    if (shift == 3) copy_shifted<3>(from, to, count);
    if (group.warp == 0 && group.lanes.lane <= static_cast<int>(kStrips)) copy_seam(out);
  }

  /// Copies `count` units, of which the first begins `shift` words behind that of `from`. A warp's
  /// stores fill whole lines of 128 bytes.
  template <int shift>
  __device__ __forceinline__ void copy_shifted(const uint4* from, uint4* to, int count) const {
    constexpr int kAtOnce = 4;
    const int head = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) / 16 % 8);
    for (int base = group.lanes.lane - head; base < count; base += kAtOnce * kLanes) {
      uint4 held[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = base + k * kLanes;
        if (i >= 0 && i < count) held[k] = shifted<shift>(from + i);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = base + k * kLanes;
        if (i >= 0 && i < count) to[i] = held[k];
      }
    }
  }

  template <int shift>
  __device__ __forceinline__ static uint4 shifted(const uint4* from) {
    const uint4 a = from[0];
    if constexpr (shift == 0) return a;
    const uint4 b = from[1];
    if constexpr (shift == 1) return make_uint4(a.y, a.z, a.w, b.x);
    if constexpr (shift == 2) return make_uint4(a.z, a.w, b.x, b.y);
    return make_uint4(a.w, b.x, b.y, b.z);
  }

  /// Copies, in lane l, the unit in which strip l begins, or the payload ends, unless it is a whole
  /// one of one strip.
  __device__ void copy_seam(std::byte* out) const {
    const std::uint32_t begin = group.shared->begin[group.lanes.lane];
    if (begin % 4 == 0) return;
    const std::uint32_t first = begin / 4 * 4;
    reinterpret_cast<uint4*>(out)[begin / 4] =
        make_uint4(word_at(first), word_at(first + 1), word_at(first + 2), word_at(first + 3));
  }

  __device__ std::uint32_t word_at(std::uint32_t word) const {
    if (word < kStripTable / 4) return table(word);
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip)
      if (word < group.shared->begin[strip + 1])
        return load_word(staging_of(strip) + 4 * (word - group.shared->begin[strip]));
    return 0;
  }

  /// For blocks that get smaller though one of their strips does not: each warp in turn codes its
  /// strip again, with room for any.
  __device__ void code_one_by_one(const std::byte* in, std::uint32_t bytes, std::byte* out) const {
    auto* words = reinterpret_cast<std::uint32_t*>(out);
    if (group.leads())
      for (std::uint32_t i = 0; i < kStripTable / 4; ++i) words[i] = table(i);
    if (group.warp == 1) {
      const std::uint32_t end = group.shared->begin[kStrips];
      const std::uint32_t i = end + static_cast<std::uint32_t>(group.lanes.lane);
      if (i < (end + 3) / 4 * 4) words[i] = 0;
    }
#pragma unroll 1
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
      group.sync();
      const StripPart part = StripPart::of(strip, bytes);
      if (strip != group.warp || part.bytes == 0) continue;
      const std::uint32_t begin = group.shared->begin[strip];
      const std::uint32_t used =
          Strip::encode(group.lanes, reinterpret_cast<const Word*>(in + part.begin),
                        static_cast<std::uint32_t>(part.bytes / sizeof(Word)), settings,
                        staging_of(0), Shape::kEncodeRoom * kStrips);
      for (std::uint32_t i = group.lanes.lane; i < used / 4; i += kLanes)
        words[begin + i] = load_word(staging_of(0) + 4 * i);
    }
  }
};

}  // namespace lanescope::compress
