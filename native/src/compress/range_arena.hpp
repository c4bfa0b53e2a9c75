#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace lanescope::compress {

/// Bytes of one piece of an arena.
struct Range {
  std::size_t piece;
  std::size_t begin;
  std::size_t bytes;
};

/// Which ranges of large pieces of memory are taken; knows nothing of the memory itself.
class RangeArena {
 public:
  static constexpr std::size_t kGranule = 4096;

  static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + kGranule - 1) / kGranule * kGranule;
  }

  /// Adds so many free bytes, a multiple of `kGranule`; returns the number of the piece.
  std::size_t add_piece(std::size_t bytes);

  /// Takes the shortest free range that has `bytes` bytes, rounded up to whole granules; nothing
  /// where none is long enough.
  std::optional<Range> take(std::size_t bytes);

  /// Throws `Error` where any of it is free already.
  void give(const Range& range);

  /// Gives back what lies behind the first `bytes` bytes, in whole granules; returns the rest.
  Range keep_front(const Range& range, std::size_t bytes);

  /// Forgets a piece of `most` bytes or fewer of which nothing is taken, and returns its number.
  std::optional<std::size_t> drop_free_piece(std::size_t most = ~std::size_t{0});

  std::size_t bytes() const { return bytes_; }
  std::size_t free_bytes() const { return free_bytes_; }

 private:
  struct Piece {
    std::size_t bytes;
    std::map<std::size_t, std::size_t> free;  // begin and bytes, no two of them touching
  };

  std::map<std::size_t, Piece> pieces_;
  std::size_t next_piece_ = 0;
  std::size_t bytes_ = 0;
  std::size_t free_bytes_ = 0;
};

}  // namespace lanescope::compress
