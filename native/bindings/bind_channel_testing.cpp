#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "compress/range_arena.hpp"
#include "compress/slabs.hpp"
#include "compress/ticket.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::compress::BlockMode;
using lanescope::compress::Descriptor;
using lanescope::compress::Entry;
using lanescope::compress::Range;
using lanescope::compress::RangeArena;

namespace {

using Numbers = std::tuple<std::size_t, std::size_t, std::size_t>;

Range range_of(const Numbers& numbers) {
  return {std::get<0>(numbers), std::get<1>(numbers), std::get<2>(numbers)};
}

Numbers numbers_of(const Range& range) {
  return {range.piece, range.begin, range.bytes};
}

std::vector<Entry> entries_of(const std::vector<std::pair<std::uint64_t, std::size_t>>& payloads) {
  std::vector<Entry> entries;
  for (const auto& [offset, bytes] : payloads)
    entries.push_back({Descriptor::of(BlockMode::coded, bytes, 0), offset});
  return entries;
}

std::pair<std::vector<Numbers>, std::vector<std::uint64_t>> pieces(
    const std::vector<std::pair<std::uint64_t, std::size_t>>& payloads, std::size_t used,
    std::size_t slab_blocks) {
  const auto entries = entries_of(payloads);
  const auto found = lanescope::compress::pieces_of(entries, used, slab_blocks);
  std::vector<Entry> moved(entries.size());
  lanescope::compress::rebase(entries, found, slab_blocks, moved);
  std::pair<std::vector<Numbers>, std::vector<std::uint64_t>> pieces_and_offsets;
  for (const auto& piece : found)
    pieces_and_offsets.first.emplace_back(piece.begin, piece.carried_end, piece.end);
  for (const auto& entry : moved) pieces_and_offsets.second.push_back(entry.offset);
  return pieces_and_offsets;
}

}  // namespace

void bind_channel_testing(nb::module_& testing) {
  nb::class_<RangeArena>(testing, "RangeArena")
      .def(nb::init<>())
      .def("add_piece", &RangeArena::add_piece, "bytes"_a)
      .def(
          "take",
          [](RangeArena& self, std::size_t bytes) {
            const auto range = self.take(bytes);
            return range ? std::optional(numbers_of(*range)) : std::nullopt;
          },
          "bytes"_a)
      .def(
          "give", [](RangeArena& self, const Numbers& range) { self.give(range_of(range)); },
          "range"_a)
      .def(
          "keep_front",
          [](RangeArena& self, const Numbers& range, std::size_t bytes) {
            return numbers_of(self.keep_front(range_of(range), bytes));
          },
          "range"_a, "bytes"_a)
      .def("drop_free_piece", &RangeArena::drop_free_piece, "most"_a = ~std::size_t{0})
      .def_prop_ro("bytes", &RangeArena::bytes)
      .def_prop_ro("free_bytes", &RangeArena::free_bytes);
  testing.def(
      "cut_slabs",
      [](std::size_t bytes, std::size_t slab_bytes) {
        std::vector<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> slabs;
        for (const auto& one : lanescope::compress::cut(bytes, slab_bytes))
          slabs.emplace_back(one.begin, one.bytes, one.first_block, one.blocks);
        return slabs;
      },
      "bytes"_a, "slab_bytes"_a);
  testing.def("own_seconds", &lanescope::compress::own_seconds, "lasted"_a, "with_before"_a,
              "with_next"_a);
  testing.def("payload_pieces", &pieces, "payloads"_a, "used"_a, "slab_blocks"_a,
              "Pieces (begin, carried end, end) of payloads (offset, bytes), and rebased offsets.");
}
