#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/device_kernels.hpp"

namespace lanescope::compress {

/// A part of an array that goes through a channel by itself.
struct Slab {
  std::size_t begin;  ///< In bytes of the array.
  std::size_t bytes;
  std::size_t first_block;
  std::size_t blocks;
};

/// From where a channel numbers what it carries, so that what is left of another channel in memory
/// is not taken for its own.
std::uint64_t first_number();

/// The next number of an offload: streams have room for so many bits of it.
std::uint64_t number_after(std::uint64_t number);

/// Cuts an array; `slab_bytes` is a multiple of `kBlockBytes`, and only the last slab has fewer.
std::vector<Slab> cut(std::size_t bytes, std::size_t slab_bytes);

/// The payloads of one slab, and what lies between them.
struct Piece {
  std::size_t begin;        ///< From the first payload of the array on.
  std::size_t carried_end;  ///< What lies before belongs to the piece before, too.
  std::size_t end;
};

/// Where the payloads of each slab lie, if those of an array are written in any order. A piece
/// begins and ends nowhere before the one before it, so that bytes which have to cross a link
/// twice otherwise can be carried over from there. Entries that point outside of the `used` bytes
/// of payloads are left to the decoder, which refuses them.
std::vector<Piece> pieces_of(std::span<const Entry> entries, std::size_t used,
                             std::size_t slab_blocks);

/// Of them.
std::size_t largest_of(std::span<const Piece> pieces);

/// Entries as from the begin of their slab's piece on. One that points outside of it does so
/// afterwards.
void rebase(std::span<const Entry> entries, std::span<const Piece> pieces, std::size_t slab_blocks,
            std::span<Entry> out);

}  // namespace lanescope::compress
