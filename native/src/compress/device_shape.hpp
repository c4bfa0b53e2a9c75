#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compress/blocks.hpp"
#include "compress/strip_codec.hpp"
#include "compress/warp.hpp"

namespace lanescope::compress {

/// A line of memory: what is read at once, or written, crosses a link in whole ones best.
inline constexpr std::uint32_t kLine = 128;

/// The warps that work on a block.
inline constexpr int kGroupThreads = static_cast<int>(kStrips) * kLanes;

/// In place of a codec's class, for blocks that are not coded.
struct NoStrip {
  using Word = std::uint8_t;
};

/// Bytes of shared memory for each warp, where an SM has so many groups in so many CTAs. An SM of
/// compute capability 9.0 or 10.0 has 228 KiB, but for a little, of which each CTA takes one for
/// itself, and up to so much for what its groups share.
constexpr std::uint32_t shared_of_warp(std::uint32_t groups, std::uint32_t ctas) {
  constexpr std::uint32_t kShared = 228 << 10, kOfCta = (1 << 10) + 1024;
  return (kShared - ctas * kOfCta) / (groups * static_cast<std::uint32_t>(kStrips)) / 16 * 16;
}

/// Groups of an encoder that somebody follows, of up to `groups`: one more warp marks what is
/// stored then, and takes registers, too.
template <typename Strip>
constexpr int followed_groups(int groups) {
  return ManyRegisters<Strip> ? std::min(groups, 3) : groups;
}

/// Most threads of an encoder's CTA.
template <typename Strip, typename Shape>
constexpr int encode_threads() {
  return std::max(Shape::kEncodeGroups * kGroupThreads,
                  followed_groups<Strip>(Shape::kEncodeGroups) * kGroupThreads + kLanes);
}

/// What an SM keeps in shared memory for a codec. Four warps, a group, work on a block. As many
/// groups as fit hide each other's waiting: so strips have room for what they usually become where
/// that makes a group more, and the few that do not fit take another way.
template <typename Strip>
struct DeviceShape {
 private:
  static constexpr std::uint32_t kValues = kStripBytes / sizeof(typename Strip::Word);
  static constexpr std::uint32_t kManyEscapes = 2 << 10;

 public:
  static constexpr bool kCodes = true;
  /// Of an update, whether values and base are read but once, and values held in shared memory.
  static constexpr bool kOnce = false;

  static constexpr int kEncodeGroups =
      Strip::least_room(kValues) + kManyEscapes <= shared_of_warp(4, 1) ? 4 : 3;
  /// Bytes for each warp's coded strip.
  static constexpr std::uint32_t kEncodeRoom = std::min(
      shared_of_warp(kEncodeGroups, 1), static_cast<std::uint32_t>(padded(Strip::bound(kValues))));
  static_assert(kEncodeRoom >= Strip::least_room(kValues));
  static_assert(kEncodeRoom * kStrips >= Strip::bound(kValues));
  static constexpr std::uint32_t kEncodeBytes = kEncodeRoom;  ///< For each warp, in all.

  static constexpr int kDecodeGroups = 3;  // Each is a CTA.
  /// Decoded values of a warp that are not yet stored.
  static constexpr std::uint32_t kTileValues = Strip::kRow * sizeof(typename Strip::Word) < 512
                                                   ? 512 / sizeof(typename Strip::Word)
                                                   : Strip::kRow;
  static constexpr std::uint32_t kTileBytes = kTileValues * sizeof(typename Strip::Word);
  /// Bytes for each warp's coded strip, which begins up to 124 behind the begin of a line.
  static constexpr std::uint32_t kDecodeRoom =
      std::min(shared_of_warp(kDecodeGroups, kDecodeGroups) - kTileBytes,
               static_cast<std::uint32_t>(padded(Strip::bound(kValues) + kLine - 4)));
  static constexpr std::uint32_t kDecodeBytes = kDecodeRoom + kTileBytes;  ///< Of a warp, in all.
};

template <>
struct DeviceShape<NoStrip> {
  static constexpr bool kCodes = false, kOnce = false;
  static constexpr int kEncodeGroups = 4, kDecodeGroups = 4;
  static constexpr std::uint32_t kEncodeRoom = 0, kEncodeBytes = 0;
  static constexpr std::uint32_t kDecodeRoom = 0, kTileBytes = 0, kDecodeBytes = 0;
};

/// The same for updates by a codec that takes values in order. Differences go into it by way of a
/// tile, as values and base are read, and what it decodes becomes values where it lies, in shared
/// memory, until the block is known to be good; large strips lie behind, and make room as they are
/// read. That pays where the codec takes little time itself.
template <typename Strip, std::uint32_t kDifferenceUnits = 4, std::uint32_t kBaseUnits = 8>
struct OnceShape {
 private:
  static constexpr std::uint32_t kValues = kStripBytes / sizeof(typename Strip::Word);

 public:
  static constexpr bool kCodes = true, kOnce = true;

  static constexpr int kEncodeGroups = 3;
  /// Units of 16 bytes for each lane.
  static constexpr std::uint32_t kDifferencesAtOnce = kDifferenceUnits;
  static constexpr std::uint32_t kDifferencesTile = kDifferenceUnits * kLanes * 16;
  static constexpr std::uint32_t kEncodeRoom =
      std::min(shared_of_warp(kEncodeGroups, 1) - kDifferencesTile,
               static_cast<std::uint32_t>(padded(Strip::bound(kValues))));
  static_assert(kEncodeRoom >= Strip::least_room(kValues));
  static_assert(kEncodeRoom * kStrips >= Strip::bound(kValues));
  static constexpr std::uint32_t kEncodeBytes = kEncodeRoom + kDifferencesTile;

  static constexpr int kDecodeGroups = 3;
  /// Differences that are put onto the base at a time.
  static constexpr std::uint32_t kTileBytes = kBaseUnits * kLanes * 16;
  static constexpr std::uint32_t kTileValues = kTileBytes / sizeof(typename Strip::Word);
  static_assert(kTileValues % Strip::kRow == 0);
  /// Behind values, so that those of a strip that ends there do not reach what is not read yet: it
  /// ends at a multiple of 4, up to 3 bytes behind what it holds, in a unit of 16 bytes.
  static constexpr std::uint32_t kDecodeSpare = 16;
  static constexpr std::uint32_t kDecodeRoom =
      shared_of_warp(kDecodeGroups, kDecodeGroups) - kStripBytes - kDecodeSpare;
  static_assert(kDecodeRoom >= Strip::head(kValues) + kLine + 2 * 16);
  static constexpr std::uint32_t kDecodeBytes = kDecodeRoom + kStripBytes + kDecodeSpare;
};

template <typename Strip, bool update>
using ShapeOf = std::conditional_t<update && InOrder<Strip>, OnceShape<Strip>, DeviceShape<Strip>>;

}  // namespace lanescope::compress
