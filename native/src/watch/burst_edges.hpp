#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "watch/record_sums.hpp"

/// Where the bursts of counters begin and end beside traced copies.
namespace lanescope::watch {

/// Copies over a link, ascending, none of which overlap.
struct CopyTimes {
  Times start_ns, end_ns;
  std::span<const bool> received;  ///< Whether the GPU received it; else it sent it.
};

/// What a burst is.
struct BurstBounds {
  std::int64_t guard_ns;    ///< Records of so long around a copy are looked at.
  std::size_t least_parts;  ///< A burst has so many records at least.
  double part_share;        ///< They are above this share of the fullest.
};

/// Begin and end of a burst less those of its copy, in nanoseconds.
using BurstEdges = std::array<double, 2>;

/// The edges of the bursts of copies.
struct FoundBursts {
  std::vector<std::int64_t> copies;  ///< Which copies have one.
  std::vector<BurstEdges> edges;     ///< Of each of these.
};

/// Finds the burst of each copy; none where something near it is not known, or other traffic is
/// around it. Records that a burst fills in part tell where in them its edge is.
FoundBursts burst_edges(const CounterColumns& columns, const CopyTimes& copies,
                        const BurstBounds& bounds);

}  // namespace lanescope::watch
