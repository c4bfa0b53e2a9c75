#pragma once

#include "compress/device_blocks.hpp"
#include "compress/device_group.cuh"
#include "compress/device_onto.cuh"
#include "compress/device_shape.hpp"
#include "compress/strip_codec.hpp"

namespace lanescope::compress {

/// What is wrong with a block, as `Fault` has it.
enum class Wrong : unsigned int {
  nothing = 0,
  payload = 1,
  checksum = 2,
  mode = 3,
  late = 4,
  base = 5
};

/// Values that a warp decodes, by way of shared memory: from there they are stored, 16 bytes a
/// lane, and get into the checksum. Differences of an update are put onto its base.
template <typename Strip, bool update, typename Shape>
struct TileOut {
  using Word = typename Strip::Word;
  static constexpr bool kManyRows = Shape::kOnce;

  Word* tile;            ///< Or all of the strip.
  std::byte* out;        ///< Of the strip.
  std::uint32_t values;  ///< Of the strip.
  std::uint32_t place;   ///< Of the strip in its block, in words of 8 bytes.
  std::uint64_t sum;     ///< Of parts of the checksum, this lane's.
  OntoBase* onto = nullptr;
  uint4 ahead[Shape::kTileBytes / 16 / kLanes] = {};  ///< The base under the next tile.

  /// Has the base under a tile on its way.
  __device__ __forceinline__ void look_ahead(DeviceWarp warp, std::uint32_t begin) {
    if constexpr (update) {
      if (begin + Shape::kTileBytes > values * sizeof(Word)) return;
#pragma unroll
      for (std::uint32_t k = 0; k < kEach; ++k)
        ahead[k] = onto->base_of(begin / 16 + k * kLanes + warp.lane);
    }
  }

  __device__ __forceinline__ Word* at(std::uint32_t first) const {
    return tile + (Shape::kOnce ? first : first % Shape::kTileValues);
  }

  __device__ __forceinline__ void done(DeviceWarp warp, std::uint32_t end) {
    if (end % Shape::kTileValues != 0 && end < values) return;
    const std::uint32_t begin = (end - 1) / Shape::kTileValues * Shape::kTileValues;
    const std::uint32_t bytes = ((end < values ? end : values) - begin) * sizeof(Word);
    __syncwarp();
    if (bytes == Shape::kTileBytes)
      store_tile(warp, begin * static_cast<std::uint32_t>(sizeof(Word)));
    else
      store_part(warp, begin * static_cast<std::uint32_t>(sizeof(Word)), bytes);
    __syncwarp();
  }

 private:
  static constexpr std::uint32_t kEach = Shape::kTileBytes / 16 / kLanes;

  __device__ __forceinline__ void store_tile(DeviceWarp warp, std::uint32_t begin) {
    const auto* from = reinterpret_cast<const uint4*>(at(begin / sizeof(Word))) + warp.lane;
    auto* to = reinterpret_cast<uint4*>(out + begin) + warp.lane;
    uint4 held[kEach];
#pragma unroll
    for (std::uint32_t k = 0; k < kEach; ++k) held[k] = from[k * kLanes];
#pragma unroll
    for (std::uint32_t k = 0; k < kEach; ++k) {
      if constexpr (update)
        onto->put(held[k], ahead[k], begin / 16 + k * kLanes + warp.lane);
      else
        to[k * kLanes] = held[k];
      add_parts(sum, held[k], place + begin / 8 + 2 * (k * kLanes + warp.lane));
    }
    look_ahead(warp, begin + Shape::kTileBytes);
  }

  /// The last values of a strip that is not whole.
  __device__ void store_part(DeviceWarp warp, std::uint32_t begin, std::uint32_t bytes) {
    const auto* from = reinterpret_cast<const std::byte*>(at(begin / sizeof(Word)));
#pragma unroll 1
    for (std::uint32_t i = 16 * warp.lane; i < bytes; i += 16 * kLanes) {
      const std::uint32_t there = bytes - i < 16 ? bytes - i : 16;
      const uint4 unit = load_rest(from + i, there);
      if constexpr (update) {
        onto->put_rest(unit, (begin + i) / 16, there);
      } else {
#pragma unroll 1
        for (std::uint32_t k = 0; k < there; ++k) out[begin + i + k] = from[i + k];
      }
      add_parts(sum, unit, place + (begin + i) / 8, there);
    }
  }
};

/// Decodes blocks, one after another, by one group of warps; those of an update onto their base.
template <typename Strip, bool update = false, typename Shape = ShapeOf<Strip, update>>
struct GroupDecoder {
  using Word = typename Strip::Word;

  Group group;
  std::byte* staging;  ///< In shared memory, this warp's: `Shape::kDecodeRoom`, and a tile or all
                       ///< of a strip.
  const std::byte* payloads;
  std::size_t room;
  Settings settings;
  std::uint32_t value_bytes;
  Binding binding;
  int turn;          ///< 0 and 1 by turns.
  PutBase put = {};  ///< `values` is the group's own; null where a strip's lie in shared memory.

  /// Returns, in the leading thread, what is wrong.
  __device__ Wrong decode(const Entry& entry, std::byte* out, std::uint32_t bytes,
                          std::size_t block) {
    const StripPart mine = StripPart::of(group.warp, bytes);
    std::uint64_t sum = 0;
    OntoBase onto = base_under(mine, block);
    const Wrong wrong = restore(entry, out, bytes, mine, sum, onto);
    sum = sum_of(sum);
    turn ^= 1;
    if (group.lanes.lane == 0) group.shared->sums[turn][group.warp] = sum;
    if constexpr (update) {
      onto.sum = sum_of(onto.sum);
      if (group.lanes.lane == 0) group.shared->base_sums[group.warp] = onto.sum;
    }
    if (group.any(wrong != Wrong::nothing))
      return wrong == Wrong::mode ? Wrong::mode : Wrong::payload;
    Wrong found = group.leads() ? wrong_sum(entry, bytes, block) : Wrong::nothing;
    if constexpr (update) {
      if (group.leads() && found == Wrong::nothing) found = wrong_base(bytes, block);
      if (!group.any(found != Wrong::nothing))
        onto.store(group.lanes, out + mine.begin, static_cast<std::uint32_t>(mine.bytes));
    }
    return found;
  }

 private:
  __device__ Wrong wrong_sum(const Entry& entry, std::uint32_t bytes, std::size_t block) const {
    std::uint64_t all = checksum_begin(bytes) + checksum_place(binding, block);
#pragma unroll
    for (std::size_t strip = 0; strip < kStrips; ++strip) all += group.shared->sums[turn][strip];
    return checksum_end(all) == entry.descriptor.checksum ? Wrong::nothing : Wrong::checksum;
  }

  __device__ Wrong wrong_base(std::uint32_t bytes, std::size_t block) const {
    std::uint64_t all = checksum_begin(bytes);
#pragma unroll
    for (std::size_t strip = 0; strip < kStrips; ++strip) all += group.shared->base_sums[strip];
    return all == put.sums[block] ? Wrong::nothing : Wrong::base;
  }

  __device__ __forceinline__ OntoBase base_under(StripPart mine, std::size_t block) const {
    if constexpr (!update) return {};
    std::byte* values = Shape::kOnce ? staging + Shape::kDecodeRoom : put.values + mine.begin;
    return {reinterpret_cast<const uint4*>(put.base + block * kBlockBytes + mine.begin),
            reinterpret_cast<uint4*>(values), mine.begin / 8, put.differing};
  }

  /// How many bytes before a strip are read with it: from where its line of memory begins, or
  /// 16 bytes of it where that lies before the first payload.
  __device__ std::uint32_t bytes_before(const std::byte* strip) const {
    const auto line = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(strip) % kLine);
    return strip - payloads >= static_cast<std::ptrdiff_t>(line) ? line : line % 16;
  }

  __device__ static constexpr std::uint32_t units_of(std::uint32_t bytes) {
    return (bytes + 15) / 16;
  }

  /// Has bytes on their way to shared memory, in whole units; both sides at multiples of 16.
  __device__ __forceinline__ void bring(const std::byte* from, std::uint32_t bytes,
                                        std::byte* to) const {
    const auto* units = reinterpret_cast<const uint4*>(from);
    for (std::uint32_t i = group.lanes.lane; i < units_of(bytes); i += kLanes)
      copy_in(reinterpret_cast<uint4*>(to) + i, units + i);
  }

  /// A strip in shared memory: before its values, or, where there is too little room, its head, and
  /// the rest as far behind as there is memory, since it makes room as it is read.
  __device__ __forceinline__ CodedStrip bring_near(const std::byte* strip, std::uint32_t used,
                                                   std::uint32_t head) const {
    const std::uint32_t before = bytes_before(strip);
    const bool behind = units_of(before + used) * 16 > Shape::kDecodeRoom;
    bring(strip - before, before + (behind ? head : used), staging);
    const auto* first = reinterpret_cast<const std::uint8_t*>(staging) + before;
    const std::uint8_t* rest = first;
    if (behind) {
      const auto over =
          static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(strip + head) % 16);
      const std::uint32_t bytes = over + used - head;
      std::byte* to = staging + Shape::kDecodeBytes - 16 * units_of(bytes);
      bring(strip + head - over, bytes, to);
      rest = reinterpret_cast<const std::uint8_t*>(to) + over - head;
    }
    wait_for_copies();
    __syncwarp();
    return {first, rest, behind};
  }

  __device__ __forceinline__ Wrong restore(const Entry& entry, std::byte* out, std::uint32_t bytes,
                                           StripPart mine, std::uint64_t& sum, OntoBase& onto) {
    const auto size = static_cast<std::uint32_t>(entry.descriptor.payload_bytes());
    const std::size_t whole = padded(size);
    if (entry.descriptor.mode() > static_cast<std::uint8_t>(BlockMode::coded)) return Wrong::mode;
    if (entry.offset % 16 != 0 || entry.offset > room || whole > room - entry.offset)
      return Wrong::payload;
    const std::byte* payload = payloads + entry.offset;
    bool good = ends_in_zeros(payload, size);
    if (entry.descriptor.mode() == static_cast<std::uint8_t>(BlockMode::raw)) {
      good = good && size == bytes;
      if (good) copy(payload + mine.begin, out + mine.begin, mine, sum, onto);
    } else if (entry.descriptor.mode() == static_cast<std::uint8_t>(BlockMode::constant)) {
      good = good && size == value_bytes && size <= bytes;
      if (good) fill(repeat(load_part(payload, size), size), out + mine.begin, mine, sum, onto);
    } else if constexpr (Shape::kCodes) {
      good = good && decode_strip(payload, size, out, bytes, mine, sum, onto);
    } else {
      good = false;
    }
    return good ? Wrong::nothing : Wrong::payload;
  }

  /// Whether zeros lie behind the payload, up to a multiple of 16.
  __device__ bool ends_in_zeros(const std::byte* payload, std::uint32_t size) const {
    const std::uint32_t i = size + static_cast<std::uint32_t>(group.lanes.lane);
    const bool other = i < padded(size) && payload[i] != std::byte{0};
    return !__any_sync(kAllLanes, other);
  }

  __device__ void copy(const std::byte* from, std::byte* to, StripPart mine, std::uint64_t& sum,
                       OntoBase& onto) const {
    const std::uint32_t place = mine.begin / 8;
    auto* units = reinterpret_cast<uint4*>(to);
    for_units(
        group.lanes, from, mine.bytes,
        [&](uint4 unit, std::uint32_t number) {
          if constexpr (update)
            onto.put(unit, onto.base_of(number), number);
          else
            units[number] = unit;
          add_parts(sum, unit, place + 2 * number);
        },
        [&](uint4 unit, std::uint32_t number, std::uint32_t rest) {
          if constexpr (update)
            onto.put_rest(unit, number, rest);
          else
            for (std::uint32_t i = 16 * number; i < mine.bytes; ++i) to[i] = from[i];
          add_parts(sum, unit, place + 2 * number, rest);
        });
  }

  __device__ void fill(std::uint64_t pattern, std::byte* to, StripPart mine, std::uint64_t& sum,
                       OntoBase& onto) const {
    const std::uint32_t place = mine.begin / 8;
    const bool nothing = update && pattern == 0;
    if (nothing)
      onto.put_nothing(group.lanes, static_cast<std::uint32_t>(mine.bytes),
                       reinterpret_cast<const std::byte*>(onto.base) == to);
    const uint4 unit = unit_of(pattern, pattern);
    const std::uint32_t whole = mine.bytes / 16, rest = mine.bytes % 16;
#pragma unroll 4
    for (std::uint32_t i = group.lanes.lane; i < whole; i += kLanes) {
      if constexpr (!update)
        reinterpret_cast<uint4*>(to)[i] = unit;
      else if (!nothing)
        onto.put(unit, onto.base_of(i), i);
      add_parts(sum, unit, place + 2 * i);
    }
    if (rest == 0 || group.lanes.lane != 0) return;
    if constexpr (!update)
      for (std::uint32_t i = 0; i < rest; ++i)
        to[16 * whole + i] = static_cast<std::byte>(pattern >> i % 8 * 8);
    const std::uint64_t low = pattern & low_bytes(rest < 8 ? rest : 8);
    const std::uint64_t high = rest > 8 ? pattern & low_bytes(rest - 8) : 0;
    if (update && !nothing) onto.put_rest(unit_of(low, high), whole, rest);
    add_parts(sum, unit_of(low, high), place + 2 * whole, rest);
  }

  __device__ __forceinline__ bool decode_strip(const std::byte* payload, std::uint32_t size,
                                               std::byte* out, std::uint32_t bytes, StripPart mine,
                                               std::uint64_t& sum, OntoBase& onto) const {
    if (bytes % sizeof(Word) != 0 || size < kStripTable) return false;
    if (mine.bytes == 0) return true;
    const std::uint64_t table = *reinterpret_cast<const std::uint64_t*>(payload);
    const auto bytes_of_strip = [&](int strip) {
      return static_cast<std::uint32_t>(table >> 16 * strip & 0xFFFF) *
             static_cast<std::uint32_t>(kStripUnit);
    };
    std::uint32_t begin = kStripTable;
#pragma unroll
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip)
      if (strip < group.warp) begin += bytes_of_strip(strip);
    const std::uint32_t used = bytes_of_strip(group.warp);
    const bool last = mine.begin + mine.bytes == bytes;
    if (last ? begin + used != size : begin + used > size) return false;

    auto* tile = reinterpret_cast<Word*>(staging + Shape::kDecodeRoom);
    const auto values = static_cast<std::uint32_t>(mine.bytes / sizeof(Word));
    TileOut<Strip, update, Shape> to{tile, out + mine.begin, values, mine.begin / 8, 0, &onto};
    to.look_ahead(group.lanes, 0);
    bool good;
    if constexpr (Shape::kOnce) {
      const std::uint32_t head = Strip::head(values);
      if (used < head || used > Strip::bound(values)) return false;
      good = Strip::decode(group.lanes, bring_near(payload + begin, used, head), used, settings, to,
                           values);
    } else {
      const std::uint32_t before = bytes_before(payload + begin);
      if (units_of(before + used) * 16 <= Shape::kDecodeRoom) {
        bring(payload + begin - before, before + used, staging);
        wait_for_copies();
        __syncwarp();
        good = Strip::decode(group.lanes, reinterpret_cast<const std::uint8_t*>(staging) + before,
                             used, settings, to, values);
      } else {
        good = Strip::decode(group.lanes, reinterpret_cast<const std::uint8_t*>(payload) + begin,
                             used, settings, to, values);
      }
    }
    sum = to.sum;
    return good;
  }
};

}  // namespace lanescope::compress
