#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/blocks.hpp"
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

/// What an SM keeps in shared memory for a codec. Four warps, a group, work on a block. As many
/// groups as fit hide each other's waiting: so strips have room for what they usually become where
/// that makes a group more, and the few that do not fit take another way.
template <typename Strip>
struct DeviceShape {
 private:
  /// What an SM of compute capability 9.0 or 10.0 has, but for a little: of the 228 KiB each CTA
  /// takes one for itself, and up to so much for what its groups share.
  static constexpr std::uint32_t kShared = 228 << 10, kOfCta = (1 << 10) + 1024;
  static constexpr std::uint32_t kValues = kStripBytes / sizeof(typename Strip::Word);
  static constexpr std::uint32_t kManyEscapes = 2 << 10;

  /// For each warp, where an SM has so many groups in so many CTAs.
  static constexpr std::uint32_t each(std::uint32_t groups, std::uint32_t ctas) {
    return (kShared - ctas * kOfCta) / (groups * static_cast<std::uint32_t>(kStrips)) / 16 * 16;
  }
  static constexpr std::uint32_t least(std::uint32_t one, std::uint32_t other) {
    return one < other ? one : other;
  }

 public:
  static constexpr bool kCodes = true;

  static constexpr int kEncodeGroups =
      Strip::least_room(kValues) + kManyEscapes <= each(4, 1) ? 4 : 3;
  /// Bytes for each warp.
  static constexpr std::uint32_t kEncodeRoom =
      least(each(kEncodeGroups, 1), static_cast<std::uint32_t>(padded(Strip::bound(kValues))));
  static_assert(kEncodeRoom >= Strip::least_room(kValues));
  static_assert(kEncodeRoom * kStrips >= Strip::bound(kValues));

  static constexpr int kDecodeGroups = 3;  // Each is a CTA.
  /// Decoded values of a warp that are not yet stored.
  static constexpr std::uint32_t kTileValues = Strip::kRow * sizeof(typename Strip::Word) < 512
                                                   ? 512 / sizeof(typename Strip::Word)
                                                   : Strip::kRow;
  static constexpr std::uint32_t kTileBytes = kTileValues * sizeof(typename Strip::Word);
  /// Bytes for each warp's coded strip, which begins up to 124 behind the begin of a line.
  static constexpr std::uint32_t kDecodeRoom =
      least(each(kDecodeGroups, kDecodeGroups) - kTileBytes,
            static_cast<std::uint32_t>(padded(Strip::bound(kValues) + kLine - 4)));
};

template <>
struct DeviceShape<NoStrip> {
  static constexpr bool kCodes = false;
  static constexpr int kEncodeGroups = 4, kDecodeGroups = 4;
  static constexpr std::uint32_t kEncodeRoom = 0, kDecodeRoom = 0, kTileBytes = 0;
};

}  // namespace lanescope::compress
