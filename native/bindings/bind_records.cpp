#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "lent_array.hpp"
#include "watch/burst_edges.hpp"
#include "watch/record_bins.hpp"
#include "watch/record_sums.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::watch::CounterColumns;
using lanescope::watch::PayloadModel;
using lanescope::watch::PayloadRow;
using lanescope::watch::RateClasses;
using lanescope::watch::SpooledRecord;
using lanescope::watch::WindowRuns;

namespace {

template <typename T>
using Lent = LentArray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Whole = Lent<std::int64_t>;
using Truth = Lent<bool>;
using SpooledPairs =
    LentArray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Rows = LentArray<const double, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
template <typename T, std::size_t N = 1>
using Made = nb::ndarray<nb::numpy, T, nb::ndim<N>>;
using MadeBins = std::tuple<Made<std::int64_t, 2>, bool, std::int64_t>;
using MadeBursts = std::tuple<Made<std::int64_t>, Made<double, 2>>;
using MadeRuns = std::tuple<Made<std::int64_t>, Made<std::int64_t>, Made<double, 2>>;
using Counts = LentArray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Extremes = std::pair<double, double>;

template <typename T>
std::span<const T> span_of(const Lent<T>& array) {
  return {array.data(), array.size()};
}

template <typename T>
std::span<const T> span_of(const std::optional<Lent<T>>& array) {
  return array ? span_of(*array) : std::span<const T>();
}

void require_as_many(std::size_t rows, std::initializer_list<std::size_t> others) {
  if (std::ranges::any_of(others, [&](std::size_t other) { return other != rows; }))
    throw nb::value_error("columns differ in length");
}

std::span<const PayloadRow> rows_of(const Rows& rows) {
  return {reinterpret_cast<const PayloadRow*>(rows.data()), rows.shape(0)};
}

/// Hands values over to Python.
template <typename T, std::size_t N>
Made<T, N> made(std::vector<T> values, const std::array<std::size_t, N>& shape) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  T* data = held->data();
  const nb::capsule owner(held.get(),
                          [](void* gone) noexcept { delete static_cast<std::vector<T>*>(gone); });
  (void)held.release();
  return Made<T, N>(data, N, shape.data(), owner);
}

/// Hands rows over to Python.
template <typename T, std::size_t N>
Made<T, 2> made_rows(std::vector<std::array<T, N>> rows) {
  auto held = std::make_unique<std::vector<std::array<T, N>>>(std::move(rows));
  T* data = reinterpret_cast<T*>(held->data());
  const std::array<std::size_t, 2> shape{held->size(), N};
  const nb::capsule owner(held.get(), [](void* gone) noexcept {
    delete static_cast<std::vector<std::array<T, N>>*>(gone);
  });
  (void)held.release();
  return Made<T, 2>(data, shape.size(), shape.data(), owner);
}

CounterColumns columns_of(const Whole& end_ns, const Whole& rx_bytes, const Whole& tx_bytes,
                          const Truth& known, const std::optional<Truth>& own) {
  require_as_many(end_ns.size(), {rx_bytes.size(), tx_bytes.size(), known.size(),
                                  own ? own->size() : end_ns.size()});
  return {span_of(end_ns), span_of(rx_bytes), span_of(tx_bytes), span_of(known), span_of(own)};
}

/// Rows of values that are written before they are read. Large ones lie in huge pages, as numpy's:
/// the system clears them in a fraction of the time.
template <typename T, std::size_t N = 1>
struct NewRows {
  explicit NewRows(std::size_t rows) : held(new T[rows * N]), rows(rows) {
    constexpr std::size_t kLarge = std::size_t{1} << 22U, kPage = 4096;
    const std::size_t bytes = rows * N * sizeof(T);
    if (bytes < kLarge) return;
    void* first = held.get();
    std::size_t inside = bytes;
    if (std::align(kPage, kPage, first, inside) != nullptr)
      (void)madvise(first, inside / kPage * kPage, MADV_HUGEPAGE);
  }
  std::span<T> room() const { return {held.get(), rows * N}; }
  template <std::size_t D = 1>
  Made<T, D> given(const std::array<std::size_t, D>& shape) {
    const nb::capsule owner(held.get(),
                            [](void* gone) noexcept { delete[] static_cast<T*>(gone); });
    return Made<T, D>(held.release(), D, shape.data(), owner);
  }
  Made<T> given() { return given<1>({rows * N}); }

  std::unique_ptr<T[]> held;
  std::size_t rows;
};

std::tuple<Made<std::int64_t>, Made<std::int64_t>, Made<std::int64_t>, Made<bool>, Made<bool>>
take_apart(const SpooledPairs& records, bool rx, bool tx, std::int64_t latest_ns) {
  const std::size_t rows = records.shape(0);
  NewRows<std::int64_t> end_ns(rows), rx_bytes(rows), tx_bytes(rows);
  NewRows<bool> known(rows), own(rows);
  {
    const nb::gil_scoped_release released;
    const auto* first = reinterpret_cast<const SpooledRecord*>(records.data());
    lanescope::watch::take_apart(
        {first, rows}, {rx, tx}, latest_ns,
        {end_ns.room(), {rx_bytes.room(), tx_bytes.room()}, known.room(), own.room()});
  }
  return {end_ns.given(), rx_bytes.given(), tx_bytes.given(), known.given(), own.given()};
}

Made<double> interpolate(const Whole& at_ns, const Whole& times_ns, const Lent<double>& values) {
  require_as_many(times_ns.size(), {values.size()});
  if (times_ns.size() == 0) throw nb::value_error("there is no point");
  NewRows<double> found(at_ns.size());
  {
    const nb::gil_scoped_release released;
    lanescope::watch::interpolate(span_of(at_ns), span_of(times_ns), span_of(values), found.room());
  }
  return found.given();
}

Made<double, 2> count_between(const Whole& end_ns, const Whole& rx_bytes, const Whole& tx_bytes,
                              const Truth& known, const std::optional<Truth>& own,
                              const Whole& edges_ns) {
  const auto columns = columns_of(end_ns, rx_bytes, tx_bytes, known, own);
  const std::size_t windows = std::max<std::size_t>(edges_ns.size(), 1) - 1;
  std::vector<double> found(5 * windows);
  {
    const nb::gil_scoped_release released;
    lanescope::watch::count_between(columns, span_of(edges_ns), found);
  }
  return made<double, 2>(std::move(found), {5, windows});
}

Made<double, 2> payload_of(const Whole& end_ns, const Whole& rx_bytes, const Whole& tx_bytes,
                           const Truth& known, const std::optional<Truth>& own,
                           std::int64_t start_ns, const std::optional<Whole>& finished,
                           const std::array<std::array<double, 2>, 6>& model) {
  const auto columns = columns_of(end_ns, rx_bytes, tx_bytes, known, own);
  if (finished) require_as_many(end_ns.size(), {finished->size()});
  const auto& [rx, tx, per_sample, per_second, others, per_operation] = model;
  const PayloadModel taken{
      {rx[0], rx[1], tx[0], tx[1]}, per_sample, per_second, others, per_operation};
  NewRows<double, 3> found(end_ns.size());
  const std::span rows{reinterpret_cast<PayloadRow*>(found.room().data()), end_ns.size()};
  {
    const nb::gil_scoped_release released;
    lanescope::watch::payload_of(columns, start_ns, span_of(finished), taken, rows);
  }
  return found.given<2>({end_ns.size(), 3});
}

Made<double> sum_rests(const Rows& records, std::size_t direction, const Lent<double>& moved) {
  require_as_many(records.shape(0) + 1, {moved.size()});
  if (direction > 1) throw nb::value_error("there are directions 0 and 1");
  NewRows<double> found(moved.size());
  {
    const nb::gil_scoped_release released;
    lanescope::watch::sum_rests(rows_of(records), direction, span_of(moved), found.room());
  }
  return found.given();
}

MadeRuns split_into_windows(std::int64_t start_ns, const Whole& end_ns, const Rows& records,
                            std::int64_t window_ns, std::int64_t origin_ns) {
  require_as_many(end_ns.size(), {records.shape(0)});
  if (window_ns <= 0) throw nb::value_error("a window takes 1 ns at least");
  WindowRuns found;
  {
    const nb::gil_scoped_release released;
    found = lanescope::watch::split_into_windows(start_ns, span_of(end_ns), rows_of(records),
                                                 window_ns, origin_ns);
  }
  const std::size_t runs = found.first.size();
  return {made<std::int64_t, 1>(std::move(found.first), {runs}),
          made<std::int64_t, 1>(std::move(found.windows), {runs}),
          made_rows(std::move(found.shares))};
}

MadeBins bin_records(std::int64_t start_ns, const Whole& end_ns, const Whole& rx_bytes,
                     const Whole& tx_bytes, const Truth& known, std::int64_t each, bool run_known,
                     std::int64_t run_records) {
  const auto columns = columns_of(end_ns, rx_bytes, tx_bytes, known, std::nullopt);
  if (each <= 0) throw nb::value_error("a bin has one record at least");
  lanescope::watch::RecordRun run{run_known, run_records};
  std::vector<lanescope::watch::RecordBin> found;
  {
    const nb::gil_scoped_release released;
    found = lanescope::watch::bin_records(columns, start_ns, each, run);
  }
  return {made_rows(std::move(found)), run.known, run.records};
}

MadeBursts burst_edges(const Whole& end_ns, const Whole& rx_bytes, const Whole& tx_bytes,
                       const Truth& known, const Whole& copy_start_ns, const Whole& copy_end_ns,
                       const Truth& received, std::int64_t guard_ns, std::size_t least_parts,
                       double part_share) {
  const auto columns = columns_of(end_ns, rx_bytes, tx_bytes, known, std::nullopt);
  require_as_many(copy_start_ns.size(), {copy_end_ns.size(), received.size()});
  lanescope::watch::FoundBursts found;
  {
    const nb::gil_scoped_release released;
    found = lanescope::watch::burst_edges(
        columns, {span_of(copy_start_ns), span_of(copy_end_ns), span_of(received)},
        {guard_ns, least_parts, part_share});
  }
  const std::size_t copies = found.copies.size();
  return {made<std::int64_t, 1>(std::move(found.copies), {copies}),
          made_rows(std::move(found.edges))};
}

/// Adds to the counts; returns how many windows are known, and the extremes of each direction.
std::tuple<std::int64_t, Extremes, Extremes> count_rates(
    const Rows& shares, const Whole& windows, double known_ns, std::array<double, 2> busy_gbs,
    double resolution, double lowest_gbs, double log_step, const Counts& h2d, const Counts& d2h) {
  require_as_many(windows.size(), {shares.shape(0)});
  require_as_many(h2d.size(), {d2h.size()});
  if (h2d.size() == 0) throw nb::value_error("there is no class");
  std::array<RateClasses, 2> found{{{lowest_gbs, log_step, {h2d.data(), h2d.size()}},
                                    {lowest_gbs, log_step, {d2h.data(), d2h.size()}}}};
  const nb::gil_scoped_release released;
  const auto known = lanescope::watch::count_rates(rows_of(shares), span_of(windows),
                                                   {known_ns, busy_gbs, resolution}, found);
  return {known, {found[0].low, found[0].high}, {found[1].low, found[1].high}};
}

}  // namespace

void bind_records(nb::module_& module) {
  module.def(
      "take_apart", &take_apart, "records"_a, "rx"_a, "tx"_a, "latest_ns"_a,
      "Columns of records of a spool, each two numbers: end_ns, rx_bytes, tx_bytes, known and "
      "own. Which directions were counted tells which records are known.");
  module.def("interpolate", &interpolate, "at_ns"_a, "times_ns"_a, "values"_a,
             "As numpy.interp, of ascending times.");
  module.def("count_between", &count_between, "end_ns"_a, "rx_bytes"_a, "tx_bytes"_a, "known"_a,
             "own"_a.none(), "edges_ns"_a,
             "Between each two ascending times, as rows: bytes received and sent, known ns, those "
             "that may be the sampler's, and known samples.");
  module.def("payload_of", &payload_of, "end_ns"_a, "rx_bytes"_a, "tx_bytes"_a, "known"_a,
             "own"_a.none(), "start_ns"_a, "finished"_a.none(), "model"_a,
             "A row for each record: payload h2d and d2h, and known ns. Pairs of the model: rx and "
             "tx of a byte of payload each way; rx and tx of a sample, of a second that may be the "
             "sampler's, of any second, of a copy.");
  module.def(
      "sum_rests", &sum_rests, "records"_a, "direction"_a, "moved"_a,
      "Sums of the payload of known records in one direction without what was moved: 0, then "
      "up to the end of each. Sums of what was moved are as many.");
  module.def(
      "bin_records", &bin_records, "start_ns"_a, "end_ns"_a, "rx_bytes"_a, "tx_bytes"_a, "known"_a,
      "each"_a, "run_known"_a, "run_records"_a,
      "A row for each bin of so many records: end_ns, bytes received and sent, peaks of both "
      "in bytes/s, and known. Then the run of the last record: known or not, and how many.");
  module.def(
      "burst_edges", &burst_edges, "end_ns"_a, "rx_bytes"_a, "tx_bytes"_a, "known"_a,
      "copy_start_ns"_a, "copy_end_ns"_a, "received"_a, "guard_ns"_a, "least_parts"_a,
      "part_share"_a,
      "Which copies have a burst, and for each a row: its begin and its end less those of the "
      "copy, in ns.");
  module.def("split_into_windows", &split_into_windows, "start_ns"_a, "end_ns"_a, "records"_a,
             "window_ns"_a, "origin_ns"_a,
             "Runs of equal windows: the number of each one's first, how many it has, and a row of "
             "what one of these holds.");
  module.def("count_rates", &count_rates, "shares"_a, "windows"_a, "known_ns"_a, "busy_gbs"_a,
             "resolution"_a, "lowest_gbs"_a, "log_step"_a, "h2d"_a.noconvert(), "d2h"_a.noconvert(),
             "Counts rates of known and busy windows in classes by their logarithms. How many are "
             "known, and of each direction the lowest and the highest rate; inf and 0 of none.");
}
