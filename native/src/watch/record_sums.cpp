#include "watch/record_sums.hpp"

#include <algorithm>
#include <cmath>

namespace lanescope::watch {

namespace {

/// On the line between two points, rounded as numpy.interp does.
double between(double first, double second, std::int64_t lasted_ns, std::int64_t since_ns) {
  return (second - first) / static_cast<double>(lasted_ns) * static_cast<double>(since_ns) + first;
}

/// Adds what a record of counters holds to the sums of `count_between`.
void add(const CounterColumns& columns, std::size_t record, std::array<double, 5>& sums) {
  if (!columns.known[record]) return;
  const auto lasted = static_cast<double>(columns.end_ns[record] - columns.end_ns[record - 1]);
  sums[0] += static_cast<double>(columns.rx_bytes[record]);
  sums[1] += static_cast<double>(columns.tx_bytes[record]);
  sums[2] += lasted;
  sums[3] += columns.own.empty() || columns.own[record] ? lasted : 0.0;
  sums[4] += 1.0;
}

std::int64_t floor_division(std::int64_t number, std::int64_t divisor) {
  return number / divisor - (number % divisor < 0 ? 1 : 0);
}

/// The first window of each run; behind them the one after the last run, which is one window.
std::vector<std::int64_t> run_edges(std::int64_t start_ns, Times end_ns, std::int64_t window_ns,
                                    std::int64_t origin_ns) {
  std::int64_t number = floor_division(start_ns - origin_ns, window_ns);
  std::int64_t next_ns = origin_ns + (number + 1) * window_ns;
  std::vector<std::int64_t> edges{number};
  edges.reserve(end_ns.size() + 2);
  for (const std::int64_t end : end_ns) {
    if (end < next_ns) continue;
    const std::int64_t since_ns = end - next_ns;  // mostly less: a division takes its time
    const std::int64_t more = since_ns < window_ns ? 0 : since_ns / window_ns;
    if (more > 0) edges.push_back(number + 1);  // of windows in which no record ends
    number += 1 + more;
    next_ns += (1 + more) * window_ns;
    edges.push_back(number);
  }
  edges.push_back(number + 1);
  return edges;
}

}  // namespace

void take_apart(std::span<const SpooledRecord> records, std::array<bool, 2> counted,
                std::int64_t latest_ns, const ColumnRoom& room) {
  constexpr std::uint64_t kOwn = 1ULL << 63U;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& [end_ns, bytes] = records[i];
    const auto end = static_cast<std::int64_t>(end_ns & ~kOwn);
    room.end_ns[i] = end > latest_ns ? 0 : end;
    room.own[i] = (end_ns & kOwn) != 0;
    const bool known =
        (!counted[0] || bytes[0] != UINT32_MAX) && (!counted[1] || bytes[1] != UINT32_MAX);
    room.known[i] = known;
    for (std::size_t way = 0; way < bytes.size(); ++way)
      room.bytes[way][i] = known && bytes[way] != UINT32_MAX ? bytes[way] : 0;
  }
}

void interpolate(Times at_ns, Times times, std::span<const double> values,
                 std::span<double> found) {
  if (times.empty()) return;
  std::size_t point = 0;
  for (std::size_t i = 0; i < at_ns.size(); ++i) {
    while (point + 1 < times.size() && times[point + 1] <= at_ns[i]) ++point;
    found[i] = values[point];
    if (point + 1 < times.size() && at_ns[i] > times[point])
      found[i] = between(values[point], values[point + 1], times[point + 1] - times[point],
                         at_ns[i] - times[point]);
  }
}

void count_between(const CounterColumns& columns, Times edges_ns, std::span<double> found) {
  const Times end_ns = columns.end_ns;
  if (end_ns.empty() || edges_ns.size() < 2) return;
  const std::size_t windows = edges_ns.size() - 1;
  std::array<double, 5> sums{}, before{};
  std::size_t next = 1;
  for (std::size_t edge = 0; edge <= windows; ++edge) {
    for (; next < end_ns.size() && end_ns[next] <= edges_ns[edge]; ++next) add(columns, next, sums);
    std::array<double, 5> reached = sums;
    const std::int64_t since_ns = edges_ns[edge] - end_ns[next - 1];
    if (next < end_ns.size() && since_ns > 0) {
      std::array<double, 5> whole = sums;
      add(columns, next, whole);
      for (std::size_t i = 0; i < sums.size(); ++i)
        reached[i] = between(sums[i], whole[i], end_ns[next] - end_ns[next - 1], since_ns);
    }
    for (std::size_t i = 0; edge > 0 && i < sums.size(); ++i)
      found[i * windows + edge - 1] = reached[i] - before[i];
    before = reached;
  }
}

void payload_of(const CounterColumns& columns, std::int64_t start_ns, Times finished,
                const PayloadModel& model, std::span<PayloadRow> found) {
  const auto [a, b, c, d] = model.matrix;
  const double determinant = a * d - b * c;
  const std::array wires{columns.rx_bytes, columns.tx_bytes};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::int64_t lasted = columns.end_ns[i] - (i > 0 ? columns.end_ns[i - 1] : start_ns);
    const double known_ns = columns.known[i] ? static_cast<double>(lasted) : 0.0;
    std::array<double, 2> net{};
    if (known_ns > 0) {
      const double seconds = known_ns * 1e-9;
      const double own_seconds = columns.own.empty() || columns.own[i] ? seconds : 0.0;
      const double copies = finished.empty() ? 0.0 : static_cast<double>(finished[i]);
      for (std::size_t way = 0; way < net.size(); ++way) {
        const double observed = model.per_sample[way] + own_seconds * model.per_second[way] +
                                seconds * model.others_per_second[way];
        const auto wire = static_cast<double>(wires[way][i]);
        net[way] = wire - observed - model.per_operation[way] * copies;
      }
    }
    const auto [rx, tx] = net;
    found[i] = {(d * rx - b * tx) / determinant, (a * tx - c * rx) / determinant, known_ns};
  }
}

void sum_rests(std::span<const PayloadRow> records, std::size_t direction,
               std::span<const double> moved, std::span<double> found) {
  double sum = 0.0;
  found[0] = sum;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PayloadRow& record = records[i];
    if (record[2] > 0) sum += record[direction] - (moved[i + 1] - moved[i]);
    found[i + 1] = sum;
  }
}

WindowRuns split_into_windows(std::int64_t start_ns, Times end_ns,
                              std::span<const PayloadRow> records, std::int64_t window_ns,
                              std::int64_t origin_ns) {
  const auto edges = run_edges(start_ns, end_ns, window_ns, origin_ns);
  const std::size_t runs = edges.size() - 1;
  WindowRuns found{{edges.begin(), edges.end() - 1}, {}, {}};
  found.windows.reserve(runs);
  found.shares.reserve(runs);
  PayloadRow sums{}, before{};
  std::size_t next = 0;
  std::int64_t begin_ns = start_ns;  // of the next record
  for (std::size_t edge = 0; edge <= runs; ++edge) {
    const std::int64_t at_ns = origin_ns + edges[edge] * window_ns;
    for (; next < end_ns.size() && end_ns[next] <= at_ns; begin_ns = end_ns[next++])
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += records[next][i];
    PayloadRow reached = sums;
    if (next < end_ns.size() && at_ns > begin_ns)
      for (std::size_t i = 0; i < sums.size(); ++i)
        reached[i] =
            between(sums[i], sums[i] + records[next][i], end_ns[next] - begin_ns, at_ns - begin_ns);
    if (edge > 0) {
      const std::int64_t windows = edges[edge] - edges[edge - 1];
      found.windows.push_back(windows);
      PayloadRow share;
      for (std::size_t i = 0; i < sums.size(); ++i) share[i] = reached[i] - before[i];
      if (windows > 1)
        for (double& value : share) value /= static_cast<double>(windows);
      found.shares.push_back(share);
    }
    before = reached;
  }
  return found;
}

void RateClasses::add(double gbs, std::int64_t times) {
  const double shown = std::max(gbs, lowest_gbs);
  const double place = std::log(shown / lowest_gbs) / log_step;
  const auto last = static_cast<double>(counts.size() - 1);
  counts[static_cast<std::size_t>(std::min(place, last))] += times;
  low = std::min(low, gbs);
  high = std::max(high, gbs);
}

std::int64_t count_rates(std::span<const PayloadRow> shares, Times windows,
                         const RateBounds& bounds, std::array<RateClasses, 2>& found) {
  std::int64_t known = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& [h2d, d2h, known_ns] = shares[i];
    if (!(known_ns >= bounds.known_ns)) continue;
    known += windows[i];
    const double seconds = known_ns * 1e-9, down = std::max(h2d, 0.0), up = std::max(d2h, 0.0);
    const std::array settled{down < bounds.resolution * up ? 0.0 : down,
                             up < bounds.resolution * down ? 0.0 : up};
    for (std::size_t way = 0; way < settled.size(); ++way) {
      const double gbs = settled[way] / seconds / 1e9;
      if (gbs >= bounds.busy_gbs[way]) found[way].add(gbs, windows[i]);
    }
  }
  return known;
}

}  // namespace lanescope::watch
