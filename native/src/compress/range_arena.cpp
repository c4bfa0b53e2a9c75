#include "compress/range_arena.hpp"

#include <iterator>

#include "error.hpp"

namespace lanescope::compress {

std::size_t RangeArena::add_piece(std::size_t bytes) {
  const std::size_t number = next_piece_++;
  pieces_.emplace(number, Piece{bytes, {{0, bytes}}});
  bytes_ += bytes;
  free_bytes_ += bytes;
  return number;
}

std::optional<Range> RangeArena::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::optional<Range> best;
  for (const auto& [number, piece] : pieces_)
    for (const auto& [begin, length] : piece.free)
      if (length >= size && (!best || length < best->bytes)) best = Range{number, begin, length};
  if (!best) return std::nullopt;
  auto& free = pieces_.at(best->piece).free;
  free.erase(best->begin);
  if (best->bytes > size) free.emplace(best->begin + size, best->bytes - size);
  best->bytes = size;
  free_bytes_ -= size;
  return best;
}

void RangeArena::give(const Range& range) {
  if (range.bytes == 0) return;
  const auto wrong = [] { return Error("give", 0, "bad range", "memory was given back twice"); };
  const auto found = pieces_.find(range.piece);
  if (found == pieces_.end()) throw wrong();
  auto& [bytes, free] = found->second;
  std::size_t begin = range.begin, end = range.begin + range.bytes;
  if (end > bytes) throw wrong();
  auto after = free.lower_bound(begin);
  if (after != free.end() && after->first < end) throw wrong();
  if (after != free.begin()) {
    const auto before = std::prev(after);
    const std::size_t before_end = before->first + before->second;
    if (before_end > begin) throw wrong();
    if (before_end == begin) {
      begin = before->first;
      free.erase(before);
    }
  }
  if (after != free.end() && after->first == end) {
    end += after->second;
    free.erase(after);
  }
  free.emplace(begin, end - begin);
  free_bytes_ += range.bytes;
}

Range RangeArena::keep_front(const Range& range, std::size_t bytes) {
  const std::size_t kept = rounded(bytes);
  if (kept >= range.bytes) return range;
  give({range.piece, range.begin + kept, range.bytes - kept});
  return {range.piece, range.begin, kept};
}

std::optional<std::size_t> RangeArena::drop_free_piece(std::size_t most) {
  for (const auto& [number, piece] : pieces_) {
    if (piece.bytes > most) continue;
    if (piece.free.size() != 1 || piece.free.begin()->second != piece.bytes) continue;
    const std::size_t dropped = number;
    bytes_ -= piece.bytes;
    free_bytes_ -= piece.bytes;
    pieces_.erase(dropped);
    return dropped;
  }
  return std::nullopt;
}

}  // namespace lanescope::compress
