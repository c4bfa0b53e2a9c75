#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lanescope/compress/lanes.hpp"

namespace lanescope::compress {

// The stream, all numbers little-endian (docs/compression.md tells it in full):
//
//   Header, then 8 bytes for each dimension of the shape
//   a Descriptor for each block
//   zeros up to a multiple of 16
//   the payload of each block, each padded with zeros to a multiple of 16
//
// A block is 64 KiB of what was compressed, the last one less. The payload of a coded block is
// the lengths of its strips, 2 bytes each in units of 4 bytes, padded with zeros to 8 bytes, and
// then the strips, each padded to 4 bytes. A strip is 16 KiB of what was compressed, and all that
// one warp looks at. Where nvCOMP coded it, the payload is a `ChunkFront` and nvCOMP's chunk.

inline constexpr std::uint32_t kMagic = 0x5A43534C;  // "LSCZ"
/// The newest version, which `delta` has for 64-bit values; other streams are of version 1.
inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kBlockBytes = 64 << 10;
inline constexpr std::size_t kStripBytes = 16 << 10;
inline constexpr std::size_t kStrips = kBlockBytes / kStripBytes;
inline constexpr std::size_t kPayloadAlignment = 16;
inline constexpr std::size_t kStripUnit = 4;
inline constexpr std::size_t kStripTable = 8;
inline constexpr std::size_t kMostDimensions = 16;

/// How values are coded; the numbers are those in streams. `ans` and `bitcomp` are nvCOMP's.
enum class Codec : std::uint8_t {
  raw = 0,
  gfc = 1,
  exponent = 2,
  delta = 3,
  ans = 4,
  bitcomp = 5,
  zvc = 6,
};

/// Whether blocks are coded by NVIDIA's nvCOMP, on a GPU: its chunks are what we know nothing of.
LANESCOPE_LANES constexpr bool by_nvcomp(Codec codec) {
  return codec == Codec::ans || codec == Codec::bitcomp;
}

/// What the values are; the numbers are those in streams.
enum class Dtype : std::uint8_t {
  bytes = 0,
  float16 = 1,
  bfloat16 = 2,
  float32 = 3,
  float64 = 4,
  int8 = 5,
  int16 = 6,
  int32 = 7,
  int64 = 8,
  uint16 = 9,
  uint32 = 10,
  uint64 = 11,
};

std::size_t bytes_of(Dtype dtype);

/// The version of streams that such values are coded to.
std::uint8_t version_of(Codec codec, Dtype dtype);

/// How a block is stored: as it is, as one value that all of it repeats, or coded.
enum class BlockMode : std::uint8_t { raw = 0, constant = 1, coded = 2 };

struct Header {
  std::uint32_t magic = kMagic;
  std::uint8_t version = 1;
  Codec codec = Codec::raw;
  Dtype dtype = Dtype::bytes;
  std::uint8_t dimensionality = 1;  ///< Of GFC: how far back a value's prediction lies, 1 to 32.
  std::uint64_t bytes = 0;          ///< Of what was compressed.
  std::uint64_t stored_bytes = 0;   ///< Of the whole stream.
  std::uint32_t blocks = 0;
  std::uint8_t dimensions = 0;  ///< Of the shape.
  std::uint8_t reserved[3] = {};
  std::uint32_t unused = 0;
  std::uint32_t checksum = 0;  ///< Of the other bytes of the header and of the shape.
};
static_assert(sizeof(Header) == 40);

struct Descriptor {
  std::uint32_t size_and_mode = 0;  ///< Bytes of the payload without padding, and the mode on top.
  std::uint32_t checksum = 0;       ///< Of the block as it was: `checksum_of`.

  LANESCOPE_LANES static Descriptor of(BlockMode mode, std::size_t payload_bytes,
                                       std::uint32_t checksum) {
    return {static_cast<std::uint32_t>(payload_bytes) | static_cast<std::uint32_t>(mode) << 24,
            checksum};
  }
  LANESCOPE_LANES std::size_t payload_bytes() const { return size_and_mode & 0xFFFFFF; }
  LANESCOPE_LANES std::uint8_t mode() const {
    return static_cast<std::uint8_t>(size_and_mode >> 24);
  }
};
static_assert(sizeof(Descriptor) == 8);

/// What a stream says of itself, checked: sizes agree, and nothing lies outside of it.
struct Layout {
  Header header;
  std::vector<std::uint64_t> shape;
  std::vector<Descriptor> blocks;
  std::vector<std::size_t> offsets;  ///< Of each block's payload.
};

/// Reads and checks all but the payloads. Throws `Error` with one sentence that says what is wrong.
Layout layout_of(std::span<const std::byte> stream);

/// The same of a stream of so many bytes, of which the `front_length` ones are there.
Layout layout_of(std::span<const std::byte> front, std::size_t length);

/// Bytes in front of the payloads of a stream of so many bytes, of which the header is there, or
/// all where there are fewer. Throws `Error`.
std::size_t front_length(std::span<const std::byte> header, std::size_t length);

/// Puts the checksum into a header that is complete otherwise.
void seal(Header& header, const std::vector<std::uint64_t>& shape);

/// Bytes of header, shape and descriptors, with the zeros behind them.
std::size_t front_bytes(std::size_t dimensions, std::size_t blocks);

LANESCOPE_LANES constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

}  // namespace lanescope::compress
