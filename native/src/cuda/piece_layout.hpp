#pragma once

#include <cstddef>
#include <cstdint>

#include "pattern.hpp"

namespace lanescope {

/// Pieces begin at multiples of this, as memory from an allocator of CUDA does.
inline constexpr std::size_t kPieceAlignment = 256;
/// Bytes that at least lie between two pieces, so that nobody can take two for one.
inline constexpr std::size_t kPieceGap = 256;
/// A warp moves this many bytes at a time, four loads of 16 bytes for each thread.
inline constexpr std::size_t kPartBytes = 2048;

/// Where pieces lie in a buffer. What lies between them belongs to none and stays as
/// it is.
struct PieceLayout {
  std::size_t piece_bytes;
  std::size_t pieces;

  /// Bytes from the beginning of a piece to that of the next.
  LANESCOPE_HOST_DEVICE constexpr std::size_t stride() const {
    return (piece_bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment + kPieceGap;
  }
  /// Bytes of a buffer with all pieces, a multiple of a word.
  LANESCOPE_HOST_DEVICE constexpr std::size_t span() const { return stride() * pieces; }
};

/// Seeds of the pattern in the source and of the one that spoils the destination.
struct PieceSeeds {
  std::uint64_t source;
  std::uint64_t spoilt;
};

/// The low `bytes` bytes of a word, of which there are eight.
LANESCOPE_HOST_DEVICE inline std::uint64_t low_bytes(std::uint64_t word, std::size_t bytes) {
  return bytes >= 8 ? word : word & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

/// Word number `index` of a destination to which all pieces have come: the source's
/// in a piece, still spoilt in a gap.
LANESCOPE_HOST_DEVICE inline std::uint64_t expected_word(const PieceLayout& layout,
                                                         const PieceSeeds& seeds,
                                                         std::uint64_t index) {
  const std::size_t offset = index * 8 % layout.stride();
  const std::size_t inside = offset < layout.piece_bytes ? layout.piece_bytes - offset : 0;
  const std::uint64_t spoilt = pattern_word(seeds.spoilt, index);
  return low_bytes(pattern_word(seeds.source, index), inside) |
         (spoilt ^ low_bytes(spoilt, inside));
}

/// Number of bytes that are not zero.
LANESCOPE_HOST_DEVICE inline unsigned count_bytes(std::uint64_t bits) {
  unsigned count = 0;
  for (; bits != 0; bits >>= 8) count += (bits & 0xff) != 0;
  return count;
}

/// One thread's share of bytes [begin, end) of a piece: every `lanes`-th unit.
struct Share {
  std::size_t begin;
  std::size_t end;
  unsigned lane;
  unsigned lanes;
};

/// How threads divide pieces among them. A piece is cut into parts of `kPartBytes`;
/// `lanes()` neighbouring threads of a warp do a part together, which is an item.
struct PieceWork {
  PieceLayout layout;

  LANESCOPE_HOST_DEVICE constexpr std::size_t parts() const {
    return (layout.piece_bytes + kPartBytes - 1) / kPartBytes;
  }
  LANESCOPE_HOST_DEVICE constexpr std::size_t items() const { return layout.pieces * parts(); }
  /// A power of two: a thread for each 16 bytes, up to a warp.
  LANESCOPE_HOST_DEVICE constexpr unsigned lanes() const {
    unsigned lanes = 1;
    while (lanes < 32 && lanes * 16 < layout.piece_bytes) lanes *= 2;
    return lanes;
  }
  LANESCOPE_HOST_DEVICE constexpr std::size_t piece_of(std::size_t item) const {
    return item / parts();
  }
  /// What thread number `thread` does of an item.
  LANESCOPE_HOST_DEVICE constexpr Share share(std::size_t item, std::size_t thread) const {
    const std::size_t begin = item % parts() * kPartBytes;
    const std::size_t rest = layout.piece_bytes - begin;
    return {begin, begin + (rest < kPartBytes ? rest : kPartBytes),
            static_cast<unsigned>(thread % lanes()), lanes()};
  }
};

}  // namespace lanescope
