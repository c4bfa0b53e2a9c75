#include "compress/slabs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "compress/format.hpp"

namespace lanescope::compress {

namespace {

/// No payload lies there: a multiple of 16, as far away as can be without running over.
constexpr std::uint64_t kNowhere = std::uint64_t{1} << 62;

/// As decoders want it: they refuse what is not aligned, too.
bool lies_within(const Entry& entry, std::size_t begin, std::size_t end) {
  const std::size_t size = padded(entry.descriptor.payload_bytes());
  if (entry.offset % kPayloadAlignment != 0) return false;
  return entry.offset >= begin && entry.offset <= end && size <= end - entry.offset;
}

}  // namespace

std::uint64_t first_number() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::uint64_t number_after(std::uint64_t number) {
  return (number + 1) & ((std::uint64_t{1} << kNumberBits) - 1);
}

std::vector<Slab> cut(std::size_t bytes, std::size_t slab_bytes) {
  std::vector<Slab> slabs;
  for (std::size_t begin = 0; begin < bytes; begin += slab_bytes) {
    const std::size_t size = std::min(slab_bytes, bytes - begin);
    slabs.push_back({begin, size, begin / kBlockBytes, blocks_of(size)});
  }
  return slabs;
}

std::vector<Piece> pieces_of(std::span<const Entry> entries, std::size_t used,
                             std::size_t slab_blocks) {
  std::vector<Piece> pieces;
  for (std::size_t first = 0; first < entries.size(); first += slab_blocks) {
    Piece piece{used, 0, 0};
    for (const Entry& entry :
         entries.subspan(first, std::min(slab_blocks, entries.size() - first))) {
      if (!lies_within(entry, 0, used)) continue;
      piece.begin = std::min<std::size_t>(piece.begin, entry.offset);
      piece.end = std::max(piece.end, entry.offset + padded(entry.descriptor.payload_bytes()));
    }
    pieces.push_back(piece);
  }
  for (std::size_t i = pieces.size(); i-- > 1;)
    pieces[i - 1].begin = std::min(pieces[i - 1].begin, pieces[i].begin);
  std::size_t reached = 0;
  for (Piece& piece : pieces) {
    piece.end = std::max({piece.end, reached, piece.begin});
    piece.carried_end = std::max(piece.begin, reached);
    reached = piece.end;
  }
  return pieces;
}

std::size_t largest_of(std::span<const Piece> pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes = std::max(bytes, piece.end - piece.begin);
  return bytes;
}

void rebase(std::span<const Entry> entries, std::span<const Piece> pieces, std::size_t slab_blocks,
            std::span<Entry> out) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Piece& piece = pieces[i / slab_blocks];
    out[i] = entries[i];
    out[i].offset = lies_within(entries[i], piece.begin, piece.end)
                        ? entries[i].offset - piece.begin
                        : kNowhere;
  }
}

}  // namespace lanescope::compress
