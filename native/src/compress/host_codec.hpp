#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/candidates.hpp"
#include "compress/format.hpp"
#include "compress/update.hpp"

namespace lanescope::compress {

/// How to compress.
struct Choice {
  Codec codec = Codec::raw;
  Dtype dtype = Dtype::bytes;
  int dimensionality = 1;                    ///< Of GFC, 1 to 32.
  std::uint32_t version = kVersion;          ///< Of the stream that is read.
  Meaning meaning = Meaning::plain;          ///< Of the values; codecs do not look at it.
  UpdateKind difference = UpdateKind::none;  ///< What is coded in place of values: an update.
};

/// Throws `Error` where a codec does not take such values, or the dimensionality is out of range.
void require_possible(const Choice& choice);

/// The header of a stream of such an array, but for its length and its checksum. Throws `Error`
/// where the values cannot mean that.
Header header_of(const Choice& choice, std::size_t bytes, std::span<const std::uint64_t> shape);

/// Whether two parts of memory have bytes in common.
bool overlap(std::span<const std::byte> one, std::span<const std::byte> other);

/// Throws `Error` where an array and the memory for its stream overlap, or a stream and the memory
/// for its array.
void require_apart_to_compress(std::span<const std::byte> array, std::span<const std::byte> out);
void require_apart_to_decompress(std::span<const std::byte> stream, std::span<const std::byte> out);

/// Most bytes of a stream of so many bytes and dimensions, of which an update has one more: every
/// block raw.
std::size_t most_stream_bytes(std::size_t bytes, std::size_t dimensions);

/// Compresses on so many threads (0: as many as there are CPUs at hand, 16 at most) into `out`,
/// which has room for `most_stream_bytes` apart from the data and the base, and returns the
/// stream's length. An update has a `base` of as many bytes as the data, which may be the data.
/// Throws `Error`.
std::size_t compress_on_host(const Choice& choice, std::span<const std::byte> data,
                             std::span<const std::uint64_t> shape, std::span<std::byte> out,
                             int threads, Base base = {});

/// Throws `Error` where an array of so many bytes is not what a stream holds.
void require_room(const Layout& layout, std::size_t bytes);

/// Decompresses one block, of an update into differences, of which the payload is there with what
/// fills it up. Throws `Error` that names the block where the payload is not what the stream says.
void restore_block(const Layout& layout, std::size_t block, std::span<const std::byte> payload,
                   std::span<std::byte> out);

/// Decompresses a stream whose layout was read from it, into as many bytes as that says, apart from
/// it. Throws `Error` that names the block where a payload is not what the stream says.
///
/// An update takes its base, and no other stream takes one. `out` may be the base: then all blocks
/// are checked before the first one is written. Another base is refused before, too.
void decompress_on_host(const Layout& layout, std::span<const std::byte> stream,
                        std::span<std::byte> out, int threads, Base base = {});

}  // namespace lanescope::compress
