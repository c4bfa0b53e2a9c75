#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/lanes.hpp"
#include "lanescope/codecs.hpp"

namespace lanescope::compress {

// What of a stream's format the kernels of a GPU know. A container of the standard library here
// would be read again for each kernel and architecture.

/// The version of streams that are made. Before version 3 checksums bound neither blocks to their
/// places nor a header to its blocks; version 1 had differences of order 1 alone.
inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::uint8_t kFirstBoundVersion = 3;
inline constexpr std::size_t kBlockBytes = 64 << 10;
inline constexpr std::size_t kStripBytes = 16 << 10;
inline constexpr std::size_t kStrips = kBlockBytes / kStripBytes;
inline constexpr std::size_t kPayloadAlignment = 16;
inline constexpr std::size_t kStripUnit = 4;
inline constexpr std::size_t kStripTable = 8;

using compression::Codec;
using compression::Coder;
using compression::Dtype;

inline namespace LANESCOPE_CPU {

/// Bytes of one value; 1 where a number is no type.
constexpr std::size_t bytes_of(Dtype dtype) {
  switch (dtype) {
#define LANESCOPE_CASE(name, number, bytes) \
  case Dtype::name:                         \
    return bytes;
    LANESCOPE_DTYPES(LANESCOPE_CASE)
#undef LANESCOPE_CASE
  }
  return 1;
}

}  // namespace LANESCOPE_CPU

/// How a block is stored: as it is, as one value that all of it repeats, or coded.
enum class BlockMode : std::uint8_t { raw = 0, constant = 1, coded = 2 };

/// What checksums of blocks are bound to, so that a block is wrong in any other place.
struct Binding {
  std::uint64_t array = 0;        ///< Of a stream what its header says; of a transfer its number.
  std::uint64_t first_block = 0;  ///< The number in the array of the first block that is coded.
  bool bound = true;              ///< Not in streams before version 3.
};

struct Descriptor {
  std::uint32_t size_and_mode = 0;  ///< Bytes of the payload without padding, and the mode on top.
  std::uint32_t checksum = 0;       ///< Of the block as it was, and of its place.

  LANESCOPE_LANES static Descriptor of(BlockMode mode, std::size_t payload_bytes,
                                       std::uint32_t checksum) {
    return {static_cast<std::uint32_t>(payload_bytes) | static_cast<std::uint32_t>(mode) << 24,
            checksum};
  }
  LANESCOPE_LANES std::size_t payload_bytes() const { return size_and_mode & 0xFFFFFF; }
  LANESCOPE_LANES std::uint64_t word() const {
    return static_cast<std::uint64_t>(checksum) << 32 | size_and_mode;
  }
  LANESCOPE_LANES std::uint8_t mode() const {
    return static_cast<std::uint8_t>(size_and_mode >> 24);
  }
};
static_assert(sizeof(Descriptor) == 8);

/// Blocks of an array of so many bytes.
LANESCOPE_LANES constexpr std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

/// Bytes of a block of an array of so many bytes: `kBlockBytes`, but for the last one.
LANESCOPE_LANES constexpr std::uint32_t bytes_of_block(std::size_t bytes, std::size_t block) {
  const std::size_t left = bytes - block * kBlockBytes;
  return static_cast<std::uint32_t>(left < kBlockBytes ? left : kBlockBytes);
}

LANESCOPE_LANES constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

}  // namespace lanescope::compress
