#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

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

Made<double, 2> made_rows(std::vector<PayloadRow> rows) {
  auto held = std::make_unique<std::vector<PayloadRow>>(std::move(rows));
  double* data = reinterpret_cast<double*>(held->data());
  const std::array<std::size_t, 2> shape{held->size(), 3};
  const nb::capsule owner(
      held.get(), [](void* gone) noexcept { delete static_cast<std::vector<PayloadRow>*>(gone); });
  (void)held.release();
  return Made<double, 2>(data, shape.size(), shape.data(), owner);
}

CounterColumns columns_of(const Whole& end_ns, const Whole& rx_bytes, const Whole& tx_bytes,
                          const Truth& known, const std::optional<Truth>& own) {
  require_as_many(end_ns.size(), {rx_bytes.size(), tx_bytes.size(), known.size(),
                                  own ? own->size() : end_ns.size()});
  return {span_of(end_ns), span_of(rx_bytes), span_of(tx_bytes), span_of(known), span_of(own)};
}

template <typename T>
struct NewColumn {
  explicit NewColumn(std::size_t rows) : held(new T[rows]), rows(rows) {}
  std::span<T> room() const { return {held.get(), rows}; }
  Made<T> given() {
    const nb::capsule owner(held.get(),
                            [](void* gone) noexcept { delete[] static_cast<T*>(gone); });
    return Made<T>(held.release(), {rows}, owner);
  }

  std::unique_ptr<T[]> held;
  std::size_t rows;
};

std::tuple<Made<std::int64_t>, Made<std::int64_t>, Made<std::int64_t>, Made<bool>, Made<bool>>
take_apart(const SpooledPairs& records, bool rx, bool tx, std::int64_t latest_ns) {
  const std::size_t rows = records.shape(0);
  NewColumn<std::int64_t> end_ns(rows), rx_bytes(rows), tx_bytes(rows);
  NewColumn<bool> known(rows), own(rows);
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
  std::vector<double> found(at_ns.size());
  {
    const nb::gil_scoped_release released;
    lanescope::watch::interpolate(span_of(at_ns), span_of(times_ns), span_of(values), found);
  }
  return made<double, 1>(std::move(found), {at_ns.size()});
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
  std::vector<PayloadRow> found(end_ns.size());
  {
    const nb::gil_scoped_release released;
    lanescope::watch::payload_of(columns, start_ns, span_of(finished), taken, found);
  }
  return made_rows(std::move(found));
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
  module.def("split_into_windows", &split_into_windows, "start_ns"_a, "end_ns"_a, "records"_a,
             "window_ns"_a, "origin_ns"_a,
             "Runs of equal windows: the number of each one's first, how many it has, and a row of "
             "what one of these holds.");
  module.def("count_rates", &count_rates, "shares"_a, "windows"_a, "known_ns"_a, "busy_gbs"_a,
             "resolution"_a, "lowest_gbs"_a, "log_step"_a, "h2d"_a.noconvert(), "d2h"_a.noconvert(),
             "Counts rates of known and busy windows in classes by their logarithms. How many are "
             "known, and of each direction the lowest and the highest rate; inf and 0 of none.");
}
