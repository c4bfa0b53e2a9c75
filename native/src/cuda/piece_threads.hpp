#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>

#include "cuda/piece_layout.hpp"

// What one thread does. The same code runs on a GPU and, in tests, on a CPU.

#ifdef __CUDACC__
#define LANESCOPE_UNROLL _Pragma("unroll 4")
#else
#define LANESCOPE_UNROLL
#endif

namespace lanescope {

/// Where a piece comes from and goes to; read by threads as one unit.
struct alignas(16) PieceEnds {
  const char* source;
  char* destination;
};

/// Copies a thread's share in units of one type, four of them in flight; returns
/// where the whole units end.
template <typename Unit>
LANESCOPE_HOST_DEVICE inline std::size_t copy_units(const PieceEnds& ends, const Share& share) {
  constexpr unsigned in_flight = 4;
  const std::size_t count = (share.end - share.begin) / sizeof(Unit);
  const auto* from = reinterpret_cast<const Unit*>(ends.source + share.begin);
  auto* to = reinterpret_cast<Unit*>(ends.destination + share.begin);
  for (std::size_t first = share.lane; first < count; first += in_flight * share.lanes) {
    Unit held[in_flight] = {};
    LANESCOPE_UNROLL
    for (unsigned u = 0; u < in_flight; ++u)
      if (first + u * share.lanes < count) held[u] = from[first + u * share.lanes];
    LANESCOPE_UNROLL
    for (unsigned u = 0; u < in_flight; ++u)
      if (first + u * share.lanes < count) to[first + u * share.lanes] = held[u];
  }
  return share.begin + count * sizeof(Unit);
}

/// Copies a thread's share in the widest units that the addresses allow.
LANESCOPE_HOST_DEVICE inline void copy_share(const PieceEnds& ends, Share share) {
  const auto address = reinterpret_cast<std::uintptr_t>(ends.source) |
                       reinterpret_cast<std::uintptr_t>(ends.destination);
  if (address % sizeof(uint4) == 0) share.begin = copy_units<uint4>(ends, share);
  if (address % 4 == 0) share.begin = copy_units<std::uint32_t>(ends, share);
  copy_units<std::uint8_t>(ends, share);
}

/// All that one of `threads` threads copies. `threads` is a multiple of 32.
LANESCOPE_HOST_DEVICE inline void copy_pieces(const PieceEnds* table, const PieceWork& work,
                                              std::size_t thread, std::size_t threads) {
  const unsigned lanes = work.lanes();
  for (std::size_t item = thread / lanes; item < work.items(); item += threads / lanes)
    copy_share(table[work.piece_of(item)], work.share(item, thread));
}

/// Sum of the 4-byte words in a thread's share; a last word that is not whole counts
/// as if zeros followed. Any single wrong byte changes it. `data` is 16-byte aligned.
LANESCOPE_HOST_DEVICE inline std::uint64_t sum_share(const char* data, const Share& share) {
  const std::size_t bytes = share.end - share.begin;
  const char* first = data + share.begin;
  const auto* wide = reinterpret_cast<const uint4*>(first);
  std::uint64_t sum = 0;
  LANESCOPE_UNROLL
  for (std::size_t i = share.lane; i < bytes / 16; i += share.lanes) {
    const uint4 held = wide[i];
    sum += std::uint64_t{held.x} + held.y + held.z + held.w;
  }
  const auto* words = reinterpret_cast<const std::uint32_t*>(first);
  for (std::size_t i = bytes / 16 * 4 + share.lane; i < bytes / 4; i += share.lanes)
    sum += words[i];
  for (std::size_t i = bytes / 4 * 4 + share.lane; i < bytes; i += share.lanes)
    sum += std::uint64_t{static_cast<std::uint8_t>(first[i])} << (8 * (i % 4));
  return sum;
}

/// What the sums of all threads of an item add up to when it holds the pattern.
LANESCOPE_HOST_DEVICE inline std::uint64_t expected_sum(const PieceWork& work, std::uint64_t seed,
                                                        std::size_t item) {
  const Share all = work.share(item, 0);
  const std::size_t piece = work.piece_of(item) * work.layout.stride();
  std::uint64_t sum = 0;
  for (std::size_t offset = all.begin; offset < all.end; offset += 8) {
    const std::uint64_t word =
        low_bytes(pattern_word(seed, (piece + offset) / 8), all.end - offset);
    sum += (word & 0xffffffff) + (word >> 32);
  }
  return sum;
}

/// Half of a word of the pattern; `offset` is a multiple of 4.
LANESCOPE_HOST_DEVICE inline std::uint32_t pattern_half(std::uint64_t seed, std::size_t offset) {
  return static_cast<std::uint32_t>(pattern_word(seed, offset / 8) >> (8 * (offset % 8)));
}

/// Makes a thread's share of the pattern and stores it; `first` is where the piece
/// begins in its buffer, and `data` the piece, 16-byte aligned.
LANESCOPE_HOST_DEVICE inline void write_share(char* data, std::size_t first, std::uint64_t seed,
                                              const Share& share) {
  const std::size_t bytes = share.end - share.begin, begin = first + share.begin;
  char* out = data + share.begin;
  auto* wide = reinterpret_cast<uint4*>(out);
  for (std::size_t i = share.lane; i < bytes / 16; i += share.lanes) {
    const std::size_t at = begin + i * 16;
    wide[i] = uint4{pattern_half(seed, at), pattern_half(seed, at + 4), pattern_half(seed, at + 8),
                    pattern_half(seed, at + 12)};
  }
  auto* words = reinterpret_cast<std::uint32_t*>(out);
  for (std::size_t i = bytes / 16 * 4 + share.lane; i < bytes / 4; i += share.lanes)
    words[i] = pattern_half(seed, begin + i * 4);
  for (std::size_t i = bytes / 4 * 4 + share.lane; i < bytes; i += share.lanes)
    out[i] = static_cast<char>(pattern_byte(seed, begin + i));
}

/// All that one of `threads` threads writes. `threads` is a multiple of 32.
LANESCOPE_HOST_DEVICE inline void write_pieces(const PieceEnds* table, const PieceWork& work,
                                               std::uint64_t seed, std::size_t thread,
                                               std::size_t threads) {
  const unsigned lanes = work.lanes();
  for (std::size_t item = thread / lanes; item < work.items(); item += threads / lanes) {
    const std::size_t piece = work.piece_of(item);
    write_share(table[piece].destination, piece * work.layout.stride(), seed,
                work.share(item, thread));
  }
}

}  // namespace lanescope
