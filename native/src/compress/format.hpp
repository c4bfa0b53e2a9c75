#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/blocks.hpp"
#include "compress/difference.hpp"
#include "compress/meaning.hpp"

namespace lanescope::compress {

// The stream, all numbers little-endian (docs/compression.md tells it in full):
//
//   Header, then 8 bytes with the checksum of the base, if it is an update, and 8 bytes for each
//   dimension of the shape
//   a Descriptor for each block
//   zeros up to a multiple of 16
//   the payload of each block, each padded with zeros to a multiple of 16
//
// A block is 64 KiB of what was compressed, the last one less. The payload of a coded block is
// the lengths of its strips, 2 bytes each in units of 4 bytes, padded with zeros to 8 bytes, and
// then the strips, each padded to 4 bytes. A strip is 16 KiB of what was compressed, and all that
// one warp looks at. Where nvCOMP coded it, the payload is a `ChunkFront` and nvCOMP's chunk.

inline constexpr std::uint32_t kMagic = 0x5A43534C;  // "LSCZ"
inline constexpr std::size_t kMostDimensions = 16;
/// Of streams whose values mean more than their type says; all others have `kVersion`, which older
/// programs read, too.
inline constexpr std::uint8_t kMeaningVersion = 4;
/// Of streams whose blocks were coded before there was a header: they are bound to the number of
/// their transfer, which the header has, and to nothing else of it.
inline constexpr std::uint8_t kNumberedVersion = 5;
inline constexpr int kNumberBits = 48;
/// Of updates, which have to be put onto a base.
inline constexpr std::uint8_t kUpdateVersion = 6;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint8_t version = kVersion;
  Codec codec = Codec::raw;
  Dtype dtype = Dtype::bytes;
  std::uint8_t dimensionality = 1;  ///< Of GFC: how far back a value's prediction lies, 1 to 32.
  std::uint64_t bytes = 0;          ///< Of what was compressed.
  std::uint64_t stored_bytes = 0;   ///< Of the whole stream.
  std::uint32_t blocks = 0;
  std::uint8_t dimensions = 0;       ///< Of the shape.
  Meaning meaning = Meaning::plain;  ///< Of the values, since version 4.
  std::uint8_t number[6] = {};       ///< In version 5 of a transfer, from the lowest byte on; in
                                     ///< version 6 the first byte has an `UpdateKind`.
  std::uint32_t checksum = 0;  ///< Of the other bytes of the header, what stands between it and the
                               ///< descriptors and, since version 3, these.

  /// What blocks hold, if it is an update.
  UpdateKind difference() const {
    return version >= kUpdateVersion ? static_cast<UpdateKind>(number[0]) : UpdateKind::none;
  }

  /// 8-byte words between the header and the descriptors.
  std::size_t words() const { return dimensions + std::size_t{difference() != UpdateKind::none}; }
};
static_assert(sizeof(Header) == 40);

/// What a stream says of itself, checked: sizes agree, and nothing lies outside of it.
struct Layout {
  Header header;
  std::uint64_t base = 0;  ///< Of an update: the sum of the checksum of its base.
  std::vector<std::uint64_t> shape;
  std::vector<Descriptor> blocks;
  std::vector<std::size_t> offsets;  ///< Of each block's payload.
  Binding binding;                   ///< Of each block's checksum.
};

/// Reads and checks all but the payloads. Throws `Error` with one sentence that says what is wrong.
Layout layout_of(std::span<const std::byte> stream);

/// The same of a stream of so many bytes, of which the `front_length` ones are there.
Layout layout_of(std::span<const std::byte> front, std::size_t length);

/// Bytes in front of the payloads of a stream of so many bytes, of which the header is there, or
/// all where there are fewer. Throws `Error`.
std::size_t front_length(std::span<const std::byte> header, std::size_t length);

/// The words between a header and the descriptors: of an update the sum of its base, and the shape.
std::vector<std::uint64_t> words_behind(const Header& header, std::uint64_t base,
                                        std::span<const std::uint64_t> shape);

/// What the blocks of a stream are bound to: all that a header and the words behind it say but the
/// stream's length, which is not known before they are coded; or the number of a transfer.
Binding binding_of(Header header, std::span<const std::uint64_t> words);

/// Puts the number of a transfer, of `kNumberBits`, into a header of `kNumberedVersion`.
void put_number(Header& header, std::uint64_t number);

/// Puts the checksum into a header that is complete otherwise.
void seal(Header& header, std::span<const std::uint64_t> words,
          std::span<const Descriptor> descriptors);

/// The sum of which that checksum is made, but for the parts of the descriptors.
std::uint64_t sum_before_descriptors(Header header, std::span<const std::uint64_t> words);

/// Where descriptors begin behind so many words, and the place of the first one in the checksum.
inline std::size_t head_bytes(std::size_t words) {
  return sizeof(Header) + 8 * words;
}
inline std::size_t first_descriptor_place(std::size_t words) {
  return head_bytes(words) / 8;
}

inline bool is_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kPayloadAlignment == 0;
}

/// Bytes of header, words and descriptors, with the zeros behind them.
std::size_t front_bytes(std::size_t words, std::size_t blocks);

}  // namespace lanescope::compress
