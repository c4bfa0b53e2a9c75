// Adds up made-up records of counters in windows and between times, and compares with what each
// record alone gives: `record_sums ROUNDS SEED`. Ends with 1 and a line where they differ.
#include "watch/record_sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "watch/burst_edges.hpp"
#include "watch/record_bins.hpp"

namespace {

using lanescope::watch::CounterColumns;
using lanescope::watch::PayloadRow;
using lanescope::watch::Times;
using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("differs: %s\n", what);
  std::exit(1);
}

bool near(double one, double other) {
  return std::abs(one - other) <= 1e-6 * (1 + std::abs(other));
}

/// Times that ascend, some of them the same, and some far apart.
std::vector<std::int64_t> ascending(Random& random, std::int64_t begin, std::size_t count) {
  std::vector<std::int64_t> times(count);
  for (std::int64_t& time : times)
    time = begin += pick(random, 0, 9) == 0 ? pick(random, 0, 5000) : pick(random, 0, 60);
  return times;
}

/// How much of the time from `begin` to `end` lies between two others; 1 of none.
double share(std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to) {
  const std::int64_t inside = std::min(end, to) - std::max(begin, from);
  return end > begin ? static_cast<double>(std::max<std::int64_t>(inside, 0)) /
                           static_cast<double>(end - begin)
                     : 0.0;
}

void check_windows(Random& random) {
  const std::int64_t start = pick(random, 0, 300), origin = pick(random, 0, 600) - 300;
  const auto ends = ascending(random, start, static_cast<std::size_t>(pick(random, 1, 60)));
  std::vector<PayloadRow> rows(ends.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool lasts = ends[i] > (i > 0 ? ends[i - 1] : start);
    for (double& value : rows[i]) value = lasts ? static_cast<double>(pick(random, 0, 999)) : 0.0;
  }
  const std::int64_t window = pick(random, 1, 200);
  const auto found = lanescope::watch::split_into_windows(start, ends, rows, window, origin);
  std::int64_t expected = found.first.at(0);
  for (std::size_t run = 0; run < found.first.size(); ++run) {
    require(found.first[run] == expected && found.windows[run] > 0, "runs follow each other");
    expected += found.windows[run];
    const std::int64_t from = origin + found.first[run] * window;
    PayloadRow sums{};
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t column = 0; column < sums.size(); ++column)
        sums[column] += rows[i][column] * share(i > 0 ? ends[i - 1] : start, ends[i], from,
                                                from + found.windows[run] * window);
    for (std::size_t column = 0; column < sums.size(); ++column)
      require(
          near(found.shares[run][column] * static_cast<double>(found.windows[run]), sums[column]),
          "bytes of a run of windows");
  }
  require(
      origin + (expected - 1) * window <= ends.back() && ends.back() < origin + expected * window,
      "the last window holds the end");
}

void check_between(Random& random) {
  const auto ends = ascending(random, 0, static_cast<std::size_t>(pick(random, 1, 40)));
  const auto edges = ascending(random, -200, static_cast<std::size_t>(pick(random, 0, 40)));
  std::vector<std::int64_t> rx(ends.size()), tx(ends.size());
  const auto known = std::make_unique<bool[]>(ends.size());
  const auto own = std::make_unique<bool[]>(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool lasts = i > 0 && ends[i] > ends[i - 1];
    rx[i] = lasts ? pick(random, 0, 999) : 0, tx[i] = lasts ? pick(random, 0, 999) : 0;
    known[i] = lasts && pick(random, 0, 3) > 0, own[i] = pick(random, 0, 1) > 0;
  }
  const CounterColumns columns{ends, rx, tx, {known.get(), ends.size()}, {own.get(), ends.size()}};
  const std::size_t windows = std::max<std::size_t>(edges.size(), 1) - 1;
  std::vector<double> found(5 * windows);
  lanescope::watch::count_between(columns, edges, found);
  for (std::size_t window = 0; window < windows; ++window) {
    std::array<double, 5> sums{};
    for (std::size_t i = 1; i < ends.size(); ++i) {
      if (!known[i]) continue;
      const double part = share(ends[i - 1], ends[i], edges[window], edges[window + 1]);
      const auto lasted = static_cast<double>(ends[i] - ends[i - 1]);
      const std::array<double, 5> all{static_cast<double>(rx[i]), static_cast<double>(tx[i]),
                                      lasted, own[i] ? lasted : 0.0, 1.0};
      for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += part * all[row];
    }
    for (std::size_t row = 0; row < sums.size(); ++row)
      require(near(found[row * windows + window], sums[row]), "what is counted between times");
  }
}

void check_lines(Random& random) {
  const auto times = ascending(random, 0, static_cast<std::size_t>(pick(random, 1, 40)));
  const auto at = ascending(random, -100, static_cast<std::size_t>(pick(random, 0, 80)));
  std::vector<double> values(times.size()), found(at.size());
  for (double& value : values) value = static_cast<double>(pick(random, 0, 999));
  lanescope::watch::interpolate(at, times, values, found);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto after = std::upper_bound(times.begin(), times.end(), at[i]) - times.begin();
    const auto next = static_cast<std::size_t>(after);
    double expected = next == 0 ? values.front() : values[next - 1];
    if (next > 0 && next < times.size())
      expected += (values[next] - values[next - 1]) *
                  share(times[next - 1], times[next], times[next - 1], at[i]);
    require(near(found[i], expected), "the line between two points");
  }
}

void check_rates(Random& random) {
  std::vector<PayloadRow> shares(static_cast<std::size_t>(pick(random, 0, 50)));
  std::vector<std::int64_t> windows(shares.size()), counts(10), others(10);
  std::int64_t known = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double lasted = pick(random, 0, 2) > 0 ? 1e9 : 1e8;
    shares[i] = {std::pow(10.0, static_cast<double>(pick(random, 0, 24))), -1.0, lasted};
    windows[i] = pick(random, 1, 5);
    known += lasted == 1e9 ? windows[i] : 0;
  }
  std::array<lanescope::watch::RateClasses, 2> found{{{1e-6, 1.0, counts}, {1e-6, 1.0, others}}};
  const auto told = lanescope::watch::count_rates(shares, windows, {5e8, {0.0, 1e-9}, 0.0}, found);
  require(told == known, "known windows");
  require(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == known,
          "all have rates");
  require(std::ranges::all_of(others, [](std::int64_t count) { return count == 0; }),
          "none is busy");
}

void check_bins(Random& random) {
  const auto ends = ascending(random, 0, static_cast<std::size_t>(pick(random, 0, 60)));
  std::vector<std::int64_t> rx(ends.size()), tx(ends.size(), 3);
  for (std::int64_t& one : rx) one = pick(random, 0, 999);
  const auto known = std::make_unique<bool[]>(ends.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    known[i] = pick(random, 0, 5) > 0;
    if (known[i] && ends[i] > (i > 0 ? ends[i - 1] : 0)) sum += rx[i];
  }
  const CounterColumns columns{ends, rx, tx, {known.get(), ends.size()}, {}};
  const std::int64_t each = pick(random, 1, 9);
  lanescope::watch::RecordRun run{false, 0};
  const auto found = lanescope::watch::bin_records(columns, 0, each, run);
  for (const auto& bin : found) sum -= bin[1];
  require(sum == 0, "bytes of bins");
  require(static_cast<std::int64_t>(found.size()) * each >= static_cast<std::int64_t>(ends.size()),
          "a bin has no more records");
  require(found.empty() == ends.empty() && (ends.empty() || found.back()[0] == ends.back()),
          "the last bin ends with the last record");
}

void check_bursts(Random& random) {
  const auto ends = ascending(random, 0, static_cast<std::size_t>(pick(random, 0, 80)));
  std::vector<std::int64_t> rx(ends.size()), tx(ends.size());
  const std::int64_t start = pick(random, -50, 1500), end = start + pick(random, 1, 500);
  for (std::size_t i = 0; i < ends.size(); ++i)
    rx[i] = ends[i] >= start && ends[i] <= end ? pick(random, 800, 999) : pick(random, 0, 9);
  const auto known = std::make_unique<bool[]>(ends.size());
  std::fill_n(known.get(), ends.size(), true);
  const CounterColumns columns{ends, rx, tx, {known.get(), ends.size()}, {}};
  const bool received = pick(random, 0, 3) > 0;
  const std::array starts{start}, stops{end};
  const auto found = lanescope::watch::burst_edges(columns, {starts, stops, {&received, 1}},
                                                   {pick(random, 0, 100), 5, 0.03});
  require(found.copies.size() == found.edges.size() && found.copies.size() <= 1,
          "a burst of a copy");
  require(received || found.copies.empty(), "no burst where nothing was sent");
}

}  // namespace

int main(int count, char** words) {
  const long rounds = count > 1 ? std::atol(words[1]) : 1000;
  Random random(count > 2 ? std::strtoull(words[2], nullptr, 10) : 1);
  for (long round = 0; round < rounds; ++round) {
    check_windows(random);
    check_between(random);
    check_lines(random);
    check_rates(random);
    check_bins(random);
    check_bursts(random);
  }
  std::printf("%ld rounds\n", rounds);
}
