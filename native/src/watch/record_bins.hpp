#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "watch/record_sums.hpp"

/// Consecutive records of counters as bins, for charts of many records.
namespace lanescope::watch {

/// Records that follow each other and are all known, or all not.
struct RecordRun {
  bool known;
  std::int64_t records;
};

/// When a bin ends, bytes received and sent, the highest rates of one record each way in bytes a
/// second, and 1 where it is known.
using RecordBin = std::array<std::int64_t, 6>;

/// Makes bins of `each` records; where what is known changes, the next one begins, so that the last
/// one of a run can be shorter. A record that takes no time is not known.
/// @param start_ns When the first record began.
/// @param run The run that the records go on from, without records where there is none; then that
/// of the last record.
/// @return Bins, the first of which is the rest of the last one before where that was not full.
std::vector<RecordBin> bin_records(const CounterColumns& columns, std::int64_t start_ns,
                                   std::int64_t each, RecordRun& run);

}  // namespace lanescope::watch
