#pragma once

#include "compress/device_blocks.hpp"
#include "compress/device_differences.cuh"
#include "compress/device_group.cuh"
#include "compress/device_progress.cuh"
#include "compress/device_shape.hpp"
#include "compress/strip_codec.hpp"
#include "compress/words.hpp"

namespace lanescope::compress {

/// Codes blocks, one after another, by one group of warps; of an update their differences.
template <typename Strip, bool update = false, typename Shape = ShapeOf<Strip, update>>
struct GroupEncoder {
  using Word = typename Strip::Word;

  Group group;
  std::byte* staging;  ///< In shared memory: `Shape::kEncodeRoom` for each warp, and then a tile of
                       ///< differences for each.
  Sink sink;
  Settings settings;
  std::uint32_t value_bytes;
  std::uint32_t untold = kNoNote;    ///< 1 + the block that is stored, and not noted yet.
  std::byte* differences = nullptr;  ///< Of an update: the group's own, of a block; null where
                                     ///< values are read but once.

  /// Calls `ahead` when the block's values were read for the last time, but where it is stored raw,
  /// or they are read but once.
  template <typename Ahead>
  __device__ void encode(const std::byte* in, std::uint32_t bytes, std::size_t block, Ahead ahead) {
    if constexpr (Shape::kOnce)
      encode_once(in, bytes, block);
    else
      encode_twice(in, bytes, block, ahead);
  }

  /// After the last block.
  __device__ void finish() {
    if (sink.progress.stored == nullptr) return;
    group.sync();
    note();
    if (group.leads()) leave_note(&group.shared->note, kOver);
  }

 private:
  /// Looks over the block, and then codes it.
  template <typename Ahead>
  __device__ __forceinline__ void encode_twice(const std::byte* in, std::uint32_t bytes,
                                               std::size_t block, Ahead ahead) {
    const StripPart mine = StripPart::of(group.warp, bytes);
    std::uint64_t first = first_value(in, bytes);
    bool constant;
    if constexpr (update) {
      const std::byte* base = sink.taken.base + block * kBlockBytes;
      first = sink.taken.differing.take(first, first_value(base, bytes));
      group.lanes.sync();  // Other lanes may still copy differences of the block before, raw.
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
      store_constant(first, out);
    } else if constexpr (Shape::kCodes) {
      if (!overfull)
        copy_strips(out);
      else if constexpr (CodesRest<Strip>)
        code_rests(in, mine, out);
      else
        code_one_by_one(in, bytes, out);
    }
  }

  /// Codes differences as they are read: all warps at once, or, where that turns out to be too much
  /// for the staging of one, then each warp in turn, with room for any. In one loop, since there is
  /// too much of the codec to have it twice.
  __device__ __forceinline__ void encode_once(const std::byte* in, std::uint32_t bytes,
                                              std::size_t block) {
    const StripPart mine = StripPart::of(group.warp, bytes);
    const std::byte* base = sink.taken.base + block * kBlockBytes;
    const bool possible = bytes % sizeof(Word) == 0;
    std::byte* out = nullptr;
#pragma unroll 1
    for (int turn = -1; turn < static_cast<int>(kStrips); ++turn) {
      const bool all = turn < 0;
      std::uint64_t first = 0, sum = 0, base_sum = 0, other = 0;
      std::uint32_t used = 0;
      if (all || turn == group.warp) {
        auto of = differences_of(in, base, mine);  // The first ones are on their way from here on.
        if (all) {
          first = first_difference(in, base, bytes);
          of.pattern = repeat(first, value_bytes);
          group.sync();  // All warps have stored what is theirs of the block before.
          note();
        }
        if (!possible)
          of.take_all();
        else if (mine.bytes > 0)
          used = Strip::encode(
              group.lanes, of, static_cast<std::uint32_t>(mine.bytes / sizeof(Word)), settings,
              staging_of(all ? group.warp : 0), Shape::kEncodeRoom * (all ? 1 : kStrips));
        sum = of.sum;
        base_sum = of.base_sum;
        other = of.other;
      }
      if (all) {
        sum = sum_of(sum);
        base_sum = sum_of(base_sum);
        if (group.lanes.lane == 0) {
          group.shared->sums[0][group.warp] = sum;
          group.shared->base_sums[group.warp] = base_sum;
          group.shared->used[group.warp] = used;
        }
        const bool constant = !group.any(other != 0) && bytes > value_bytes;
        untold = static_cast<std::uint32_t>(block) + 1;
        bool overfull = false;
        const std::uint32_t size = size_of_strips(overfull);
        const bool coded = possible && padded(size) < padded(bytes);
        const Descriptor descriptor = constant ? Descriptor::of(BlockMode::constant, value_bytes, 0)
                                      : coded  ? Descriptor::of(BlockMode::coded, size, 0)
                                               : Descriptor::of(BlockMode::raw, bytes, 0);
        out = place(descriptor, bytes, block);
        if (out == nullptr) return;
        if (constant) return store_constant(first, out);
        if (!coded)
          return copy_differences(in + mine.begin, base + mine.begin, mine.bytes, out + mine.begin);
        if (!overfull) return copy_strips(out);
        store_around_strips(out);
      } else if (turn == group.warp) {
        store_words(staging_of(0), 0, used, out);
      }
      group.sync();
    }
  }

  __device__ __forceinline__ auto differences_of(const std::byte* in, const std::byte* base,
                                                 StripPart part) const {
    return DifferencesIn<Word, Shape::kDifferencesAtOnce>(
        group.lanes,
        staging + kStrips * Shape::kEncodeRoom +
            static_cast<std::uint32_t>(group.warp) * Shape::kDifferencesTile,
        in, base, part, sink.taken.differing);
  }

  __device__ __forceinline__ void copy_differences(const std::byte* in, const std::byte* base,
                                                   std::uint32_t bytes, std::byte* out) const {
    auto* units = reinterpret_cast<uint4*>(out);
    for_unit_pairs(
        group.lanes, in, base, bytes,
        [&](uint4 values, uint4 of, std::uint32_t number) {
          units[number] = take_unit(sink.taken.differing, values, of);
        },
        [&](uint4 values, uint4 of, std::uint32_t number, std::uint32_t) {
          units[number] = take_unit(sink.taken.differing, values, of);
        });
  }

  __device__ std::uint64_t first_difference(const std::byte* in, const std::byte* base,
                                            std::uint32_t bytes) const {
    return sink.taken.differing.take(first_value(in, bytes), first_value(base, bytes));
  }

  __device__ void store_constant(std::uint64_t first, std::byte* out) const {
    if (group.leads()) *reinterpret_cast<uint4*>(out) = unit_of(first & low_bytes(value_bytes), 0);
  }

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
    return size_of_strips(overfull);
  }

  __device__ __forceinline__ std::uint32_t size_of_strips(bool& overfull) const {
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
    store_around_strips(out);
#pragma unroll 1
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
      group.sync();
      const StripPart part = StripPart::of(strip, bytes);
      if (strip != group.warp || part.bytes == 0) continue;
      store_words(staging_of(0), 0,
                  Strip::encode(group.lanes, reinterpret_cast<const Word*>(in + part.begin),
                                static_cast<std::uint32_t>(part.bytes / sizeof(Word)), settings,
                                staging_of(0), Shape::kEncodeRoom * kStrips),
                  out);
    }
  }

  /// The same for codecs that go on where the room ends: of all strips at once.
  __device__ void code_rests(const std::byte* in, StripPart mine, std::byte* out) const {
    store_around_strips(out);
    if (mine.bytes == 0) return;
    const std::uint32_t used = group.shared->used[group.warp];
    std::uint8_t* strip = staging_of(group.warp);
    if (used <= Shape::kEncodeRoom) return store_words(strip, 0, used, out);
    Strip::encode_rest(
        group.lanes, reinterpret_cast<const Word*>(in + mine.begin),
        static_cast<std::uint32_t>(mine.bytes / sizeof(Word)), strip, Shape::kEncodeRoom, used,
        [&](std::uint32_t begin, std::uint32_t end) { store_words(strip, begin, end, out); });
  }

  /// Stores table and zeros at the end.
  __device__ void store_around_strips(std::byte* out) const {
    auto* words = reinterpret_cast<std::uint32_t*>(out);
    if (group.leads())
      for (std::uint32_t i = 0; i < kStripTable / 4; ++i) words[i] = table(i);
    if (group.warp == 1) {
      const std::uint32_t end = group.shared->begin[kStrips];
      const std::uint32_t i = end + static_cast<std::uint32_t>(group.lanes.lane);
      if (i < (end + 3) / 4 * 4) words[i] = 0;
    }
  }

  /// Stores this warp's strip from byte `begin` to `end`, of which the first lies at `from`.
  __device__ void store_words(const std::uint8_t* from, std::uint32_t begin, std::uint32_t end,
                              std::byte* out) const {
    auto* words = reinterpret_cast<std::uint32_t*>(out) + group.shared->begin[group.warp];
    words += begin / 4;
    for (std::uint32_t i = group.lanes.lane; i < (end - begin) / 4; i += kLanes)
      words[i] = load_word(from + 4 * i);
  }
};

}  // namespace lanescope::compress
