#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

/// Sums over records of counters, each of which begins where the one before ends. What a record
/// holds is spread evenly over it. Times are nanoseconds and ascend; columns are as long as them.
namespace lanescope::watch {

using Times = std::span<const std::int64_t>;

/// What a record says of its payload: bytes to the GPU and from it, and known nanoseconds.
using PayloadRow = std::array<double, 3>;

/// Columns of counters. Without `own` the sampler may have used the link at any time.
struct CounterColumns {
  Times end_ns, rx_bytes, tx_bytes;
  std::span<const bool> known, own;
};

/// A record as it lies in a spool: see counter_spool.hpp.
struct SpooledRecord {
  std::uint64_t end_ns;
  std::array<std::uint32_t, 2> bytes;  // received and sent
};

/// Room for the columns of as many records.
struct ColumnRoom {
  std::span<std::int64_t> end_ns;
  std::array<std::span<std::int64_t>, 2> bytes;
  std::span<bool> known, own;
};

/// Takes records apart. Unknown bytes are 0, and times after `latest_ns`, which cannot be; a record
/// is known whose bytes are in each direction that was `counted`.
void take_apart(std::span<const SpooledRecord> records, std::array<bool, 2> counted,
                std::int64_t latest_ns, const ColumnRoom& room);

/// How payload follows from bytes on the wire: see lanescope.trace.wire.WireModel.
struct PayloadModel {
  std::array<double, 4> matrix;  // rx per h2d, rx per d2h, tx per h2d, tx per d2h
  std::array<double, 2> per_sample, per_second, others_per_second, per_operation;
};

/// The lines between points (`times`, `values`) at ascending times; beyond them the outer values.
void interpolate(Times at_ns, Times times, std::span<const double> values, std::span<double> found);

/// What is counted between each two ascending times, as rows: bytes received and sent, known
/// nanoseconds, those that may be the sampler's, and known samples. The first record has no start
/// and is left out, and so is what is not known. `found` holds five rows.
void count_between(const CounterColumns& columns, Times edges_ns, std::span<double> found);

/// The payload of records, the first of which began at `start_ns`. `finished` tells how many copies
/// ended in each; empty where none did.
void payload_of(const CounterColumns& columns, std::int64_t start_ns, Times finished,
                const PayloadModel& model, std::span<PayloadRow> found);

/// What is left of the payload of known records in one direction (0: to the GPU, 1: from it)
/// without what was moved: sums up to the begin of the first record, 0, and up to the end of each.
/// As many sums of what was moved are `moved`.
void sum_rests(std::span<const PayloadRow> records, std::size_t direction,
               std::span<const double> moved, std::span<double> found);

/// Windows of one length, as runs of equal ones.
struct WindowRuns {
  std::vector<std::int64_t> first;    ///< The number of the first window of each run.
  std::vector<std::int64_t> windows;  ///< How many it has.
  std::vector<PayloadRow> shares;     ///< What one of these holds.
};

/// Splits records over windows that are counted from `origin_ns`. Windows that lie all in one
/// record are one run.
WindowRuns split_into_windows(std::int64_t start_ns, Times end_ns,
                              std::span<const PayloadRow> records, std::int64_t window_ns,
                              std::int64_t origin_ns);

/// Rates above zero by their logarithms, in GB/s: each class is `log_step` wide, the first begins
/// at `lowest_gbs`, the last has no end.
struct RateClasses {
  double lowest_gbs, log_step;
  std::span<std::int64_t> counts;
  double low = std::numeric_limits<double>::infinity(), high = 0.0;  ///< Of what was added.

  void add(double gbs, std::int64_t times);
};

/// When windows count, and when they are busy.
struct RateBounds {
  double known_ns;                 ///< So much of a window has to be known.
  std::array<double, 2> busy_gbs;  ///< For each direction.
  double resolution;               ///< Less than this share of the other direction is nothing.
};

/// Adds the rates of windows that are known and busy, each as often as there are such windows.
/// @return how many are known.
std::int64_t count_rates(std::span<const PayloadRow> shares, Times windows,
                         const RateBounds& bounds, std::array<RateClasses, 2>& found);

}  // namespace lanescope::watch
