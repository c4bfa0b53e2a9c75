#include <cstring>
#include <vector>

#include "bindings.hpp"
#include "cuda/piece_threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::PieceEnds;
using lanescope::PieceLayout;
using lanescope::PieceSeeds;
using lanescope::PieceWork;

namespace {

constexpr PieceSeeds kSeeds{7, 8};

/// Memory for all pieces of a layout, `shift` bytes past an aligned address.
class Shifted {
 public:
  Shifted(const PieceLayout& layout, std::uint64_t seed, std::size_t shift)
      : units_(layout.span() / sizeof(Unit) + 2), shift_(shift) {
    for (std::size_t i = 0; i < layout.span(); ++i)
      data()[i] = static_cast<char>(lanescope::pattern_byte(seed, i));
  }
  char* data() { return units_[0].bytes + shift_; }

 private:
  struct alignas(16) Unit {
    char bytes[16];
  };
  std::vector<Unit> units_;
  std::size_t shift_;
};

std::size_t wrong_bytes(Shifted& destination, const PieceLayout& layout) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < layout.span(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, destination.data() + i, sizeof word);
    wrong += lanescope::count_bytes(word ^ lanescope::expected_word(layout, kSeeds, i / 8));
  }
  return wrong;
}

std::vector<PieceEnds> table_of(Shifted& source, Shifted& destination, const PieceLayout& layout) {
  std::vector<PieceEnds> table;
  for (std::size_t offset = 0; offset < layout.span(); offset += layout.stride())
    table.push_back({source.data() + offset, destination.data() + offset});
  return table;
}

/// Wrong bytes after so many threads have copied one after the other.
std::size_t wrong_after_copy(std::size_t piece_bytes, std::size_t pieces, std::size_t threads,
                             std::size_t source_shift, std::size_t destination_shift) {
  const PieceWork work{{piece_bytes, pieces}};
  Shifted source(work.layout, kSeeds.source, source_shift);
  Shifted destination(work.layout, kSeeds.spoilt, destination_shift);
  const auto table = table_of(source, destination, work.layout);
  for (std::size_t thread = 0; thread < threads; ++thread)
    lanescope::copy_pieces(table.data(), work, thread, threads);
  return wrong_bytes(destination, work.layout);
}

/// The same for threads that make the pattern; byte `flipped` is then changed.
std::size_t wrong_after_write(std::size_t piece_bytes, std::size_t pieces, std::size_t threads,
                              std::size_t flipped) {
  const PieceWork work{{piece_bytes, pieces}};
  Shifted destination(work.layout, kSeeds.spoilt, 0);
  const auto table = table_of(destination, destination, work.layout);
  for (std::size_t thread = 0; thread < threads; ++thread)
    lanescope::write_pieces(table.data(), work, kSeeds.source, thread, threads);
  if (flipped < work.layout.span()) destination.data()[flipped] ^= 1;
  return wrong_bytes(destination, work.layout);
}

/// Wrong sums of parts of pieces, of which byte `flipped` was changed before.
std::size_t wrong_sums(std::size_t piece_bytes, std::size_t pieces, std::size_t flipped) {
  const PieceWork work{{piece_bytes, pieces}};
  Shifted source(work.layout, kSeeds.source, 0);
  if (flipped < work.layout.span()) source.data()[flipped] ^= 1;
  std::size_t wrong = 0;
  for (std::size_t item = 0; item < work.items(); ++item) {
    const char* piece = source.data() + work.piece_of(item) * work.layout.stride();
    std::uint64_t sum = 0;
    for (unsigned lane = 0; lane < work.lanes(); ++lane)
      sum += lanescope::sum_share(piece, work.share(item, lane));
    wrong += sum != lanescope::expected_sum(work, kSeeds.source, item);
  }
  return wrong;
}

}  // namespace

void bind_piece_testing(nb::module_& testing) {
  testing.def(
      "piece_stride", [](std::size_t piece_bytes) { return PieceLayout{piece_bytes, 1}.stride(); },
      "piece_bytes"_a);
  testing.def("wrong_after_copy", &wrong_after_copy, "piece_bytes"_a, "pieces"_a, "threads"_a,
              "source_shift"_a, "destination_shift"_a);
  testing.def("wrong_after_write", &wrong_after_write, "piece_bytes"_a, "pieces"_a, "threads"_a,
              "flipped"_a);
  testing.def("wrong_sums", &wrong_sums, "piece_bytes"_a, "pieces"_a, "flipped"_a);
}
