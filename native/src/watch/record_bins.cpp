#include "watch/record_bins.hpp"

#include <algorithm>

namespace lanescope::watch {

namespace {

/// Records that become a bin.
struct OpenBin {
  std::array<std::int64_t, 2> bytes{};
  std::array<double, 2> peaks{};

  void add(std::array<std::int64_t, 2> moved, double seconds) {
    for (std::size_t way = 0; way < moved.size(); ++way) {
      bytes[way] += moved[way];
      peaks[way] = std::max(peaks[way], static_cast<double>(moved[way]) / seconds);
    }
  }

  RecordBin closed(std::int64_t end_ns, bool known) const {
    return {end_ns,
            bytes[0],
            bytes[1],
            static_cast<std::int64_t>(peaks[0]),
            static_cast<std::int64_t>(peaks[1]),
            known ? 1 : 0};
  }
};

}  // namespace

std::vector<RecordBin> bin_records(const CounterColumns& columns, std::int64_t start_ns,
                                   std::int64_t each, RecordRun& run) {
  const Times end_ns = columns.end_ns;
  std::vector<RecordBin> found;
  OpenBin bin;
  for (std::size_t i = 0; i < end_ns.size(); ++i) {
    const std::int64_t before_ns = i > 0 ? end_ns[i - 1] : start_ns;
    const std::int64_t lasted = end_ns[i] - before_ns;
    const bool known = columns.known[i] && lasted > 0;
    const bool same = run.records > 0 && known == run.known;
    if (!same || run.records % each == 0) {
      if (i > 0) found.push_back(bin.closed(before_ns, run.known));
      bin = {};
    }
    run = {known, same ? run.records + 1 : 1};
    if (known)
      bin.add({columns.rx_bytes[i], columns.tx_bytes[i]}, static_cast<double>(lasted) * 1e-9);
  }
  if (!end_ns.empty()) found.push_back(bin.closed(end_ns.back(), run.known));
  return found;
}

}  // namespace lanescope::watch
