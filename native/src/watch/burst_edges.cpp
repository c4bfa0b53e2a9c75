#include "watch/burst_edges.hpp"

#include <algorithm>
#include <optional>

namespace lanescope::watch {

namespace {

/// Records of one direction: bytes, nanoseconds, and their starts.
struct Around {
  std::vector<double> wire, lasted;
  std::vector<std::int64_t> starts;
  std::vector<std::size_t> parts;  // that belong to the burst
  std::vector<double> rates;       // of the inner ones
};

double median(std::vector<double>& values) {
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, upper);
  const double high = *upper;
  const double low = values.size() % 2 > 0 ? high : *std::max_element(values.begin(), upper);
  return (low + high) / 2;
}

/// How much of a record at an edge is full, in nanoseconds.
double filled(const Around& around, std::size_t record, double full) {
  const double lasted = around.lasted[record];
  return std::min(around.wire[record] / (full * lasted), 1.0) * lasted;
}

/// Copies the records that are looked at; returns whether all of them are known.
bool take(Around& around, const CounterColumns& columns, std::span<const std::int64_t> bytes,
          std::size_t first, std::size_t last) {
  const Times end_ns = columns.end_ns;
  around.wire.clear(), around.lasted.clear(), around.starts.clear();
  for (std::size_t i = first; i < last; ++i) {
    if (!columns.known[i]) return false;
    const std::int64_t start = end_ns[i > 0 ? i - 1 : 0];
    around.starts.push_back(start);
    around.lasted.push_back(static_cast<double>(end_ns[i] - start));
    around.wire.push_back(static_cast<double>(bytes[i]));
  }
  return true;
}

/// Start and end of the burst in records; the former is after `start_ns`.
std::optional<BurstEdges> burst(Around& around, std::int64_t start_ns, const BurstBounds& bounds) {
  const double most = *std::ranges::max_element(around.wire);
  around.parts.clear(), around.rates.clear();
  for (std::size_t i = 0; i < around.wire.size(); ++i)
    if (around.wire[i] > bounds.part_share * most) around.parts.push_back(i);
  if (around.parts.size() < bounds.least_parts || most <= 0) return std::nullopt;
  const std::size_t first = around.parts.front(), last = around.parts.back();
  if (first == 0 || last + 1 == around.wire.size()) return std::nullopt;  // other traffic
  for (std::size_t part = 1; part + 1 < around.parts.size(); ++part)
    around.rates.push_back(around.wire[around.parts[part]] / around.lasted[around.parts[part]]);
  const double full = median(around.rates);
  const auto begins = static_cast<double>(around.starts[first] - start_ns);
  const auto ends = static_cast<double>(around.starts[last] - start_ns);
  return BurstEdges{begins + (around.lasted[first] - filled(around, first, full)),
                    ends + filled(around, last, full)};
}

}  // namespace

FoundBursts burst_edges(const CounterColumns& columns, const CopyTimes& copies,
                        const BurstBounds& bounds) {
  const Times end_ns = columns.end_ns;
  FoundBursts found;
  Around around;
  for (std::size_t copy = 0; copy < copies.start_ns.size(); ++copy) {
    const std::int64_t start = copies.start_ns[copy], end = copies.end_ns[copy];
    const auto low = std::ranges::upper_bound(end_ns, start - bounds.guard_ns) - end_ns.begin();
    const auto high = std::ranges::lower_bound(end_ns, end + bounds.guard_ns) - end_ns.begin();
    const auto first = static_cast<std::size_t>(low);
    const std::size_t last = std::min(static_cast<std::size_t>(high) + 1, end_ns.size());
    if (last < first + std::max<std::size_t>(bounds.least_parts, 3)) continue;
    const auto bytes = copies.received[copy] ? columns.rx_bytes : columns.tx_bytes;
    if (!take(around, columns, bytes, first, last)) continue;
    if (const auto edges = burst(around, start, bounds)) {
      found.copies.push_back(static_cast<std::int64_t>(copy));
      found.edges.push_back({(*edges)[0], (*edges)[1] - static_cast<double>(end - start)});
    }
  }
  return found;
}

}  // namespace lanescope::watch
