#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "watch/counter_stream.hpp"
#include "watch/own_traffic.hpp"
#include "watch/pm_session.hpp"
#include "watch/sample_formula.hpp"
#include "watch/sampling_load.hpp"
#include "watch/spool_file.hpp"
#include "watch/worker.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::watch::CounterRecord;
using lanescope::watch::CounterStream;
using lanescope::watch::GrowingCounter;
using lanescope::watch::OwnTraffic;
using lanescope::watch::SampleFormula;
using lanescope::watch::SampleWork;
using lanescope::watch::SamplingLoad;
using lanescope::watch::SpoolFile;
using lanescope::watch::WrappingCounter;

namespace {

using Record = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;

void bind_stream(nb::module_& testing) {
  testing.def(
      "told_time",
      [](std::uint64_t told_ns, std::int64_t stepped_ns, std::uint64_t now_ns) {
        return lanescope::watch::ToldTimes(stepped_ns, now_ns).read(told_ns);
      },
      "told_ns"_a, "stepped_ns"_a, "now_ns"_a, "As the time of watches.");
  nb::class_<CounterStream>(testing, "CounterStream", "Makes records of samples.")
      .def(nb::init<std::uint64_t, bool>(), "interval_ns"_a, "drops_first"_a)
      .def(
          "add",
          [](CounterStream& self, std::uint64_t start_ns, std::uint64_t end_ns, double rx_bytes,
             double tx_bytes, bool own) { self.add({start_ns, end_ns, rx_bytes, tx_bytes, own}); },
          "start_ns"_a, "end_ns"_a, "rx_bytes"_a, "tx_bytes"_a, "own"_a = false)
      .def("begin_again", &CounterStream::begin_again)
      .def("take",
           [](CounterStream& self) {
             std::vector<Record> records;
             for (const CounterRecord& record : self.take())
               records.emplace_back(record.end_ns, record.rx_bytes, record.tx_bytes);
             return records;
           })
      .def(
          "counts",
          [](const CounterStream& self) {
            const auto& counts = self.counts();
            return std::tuple(counts.samples, counts.lost, counts.gaps, counts.repeated);
          },
          "Samples, lost ones, gaps, repeated ones.");
}

void bind_load(nb::module_& testing) {
  using std::chrono::nanoseconds;
  using Work = std::pair<std::uint64_t, std::int64_t>;
  nb::class_<SamplingLoad>(testing, "SamplingLoad", "Decides how often can be sampled.")
      .def(
          "__init__",
          [](SamplingLoad* self, std::uint64_t interval_ns, std::int64_t period_ns,
             std::uint64_t buffered) {
            new (self) SamplingLoad({interval_ns, lanescope::watch::PmSettings::kLongestIntervalNs,
                                     nanoseconds(period_ns), buffered});
          },
          "interval_ns"_a, "period_ns"_a, "buffered"_a)
      .def(
          "add",
          [](SamplingLoad& self, std::int64_t sampled_ns, const Work& decoded,
             const Work& evaluated, bool overflowed, std::uint64_t samples, std::uint64_t lost,
             std::uint64_t gaps, std::int64_t learning_ns) {
            const auto work = [](const Work& w) {
              return SampleWork{w.first, nanoseconds(w.second)};
            };
            return self.add({nanoseconds(sampled_ns), overflowed, nanoseconds(learning_ns),
                             work(decoded), work(evaluated)},
                            {samples, lost, gaps});
          },
          "sampled_ns"_a, "decoded"_a, "evaluated"_a, "overflowed"_a = false, "samples"_a = 0,
          "lost"_a = 0, "gaps"_a = 0, "learning_ns"_a = 0,
          "The interval that is to be. Work: samples and ns that they took.")
      .def(
          "begin_again",
          [](SamplingLoad& self, std::uint64_t interval_ns, std::uint64_t samples,
             std::uint64_t lost,
             std::uint64_t gaps) { self.begin_again(interval_ns, {samples, lost, gaps}); },
          "interval_ns"_a, "samples"_a = 0, "lost"_a = 0, "gaps"_a = 0)
      .def_prop_ro("settled", &SamplingLoad::settled);
}

/// Looks up samples that lie one after the other, of which `values` are what CUPTI would evaluate;
/// how many were evaluated, and how many of the others were found wrongly.
std::pair<std::uint64_t, std::uint64_t> run(SampleFormula& formula, const nb::bytes& samples,
                                            const std::vector<std::vector<double>>& values) {
  const auto* bytes = static_cast<const std::uint8_t*>(samples.data());
  const std::size_t size = samples.size() / std::max<std::size_t>(values.size(), 1);
  std::uint64_t evaluated = 0, wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (const double* found = formula.find(bytes + i * size)) {
      wrong += !std::equal(values[i].begin(), values[i].end(), found);
    } else {
      ++evaluated;
      formula.learn(values[i]);
    }
  }
  return {evaluated, wrong};
}

void bind_formula(nb::module_& testing) {
  nb::class_<SampleFormula>(testing, "SampleFormula", "Values of samples, from their bytes.")
      .def(nb::init<std::size_t, std::size_t>(), "bytes"_a, "values"_a)
      .def("run", &run, "samples"_a, "values"_a,
           "Look up samples in turn: how many were evaluated, and how many found wrongly.")
      .def("doubt", &SampleFormula::doubt)
      .def("contradictions", &SampleFormula::contradictions)
      .def("work", &SampleFormula::work, "How many numbers were multiplied to learn.")
      .def(
          "report",
          [](const SampleFormula& self) {
            const auto report = self.report();
            return std::tuple(report.state, report.sample_bytes, report.rows, report.columns,
                              report.begun_anew);
          },
          "State, bytes of a sample, rows, columns, times that all was forgotten.");
  nb::class_<OwnTraffic>(testing, "OwnTraffic", "When a sampler used its link.")
      .def(nb::init<>())
      .def("add", &OwnTraffic::add, "begin_ns"_a, "end_ns"_a)
      .def("during", &OwnTraffic::during, "start_ns"_a, "end_ns"_a);
}

}  // namespace

void bind_watch_testing(nb::module_& testing) {
  bind_stream(testing);
  bind_formula(testing);
  bind_load(testing);
  nb::class_<WrappingCounter>(testing, "WrappingCounter", "Follows a counter of 32 bits.")
      .def(nb::init<double>(), "most_per_second"_a)
      .def("advance", &WrappingCounter::advance, "value"_a, "elapsed_ns"_a);
  nb::class_<GrowingCounter>(testing, "GrowingCounter", "Follows a counter of 64 bits.")
      .def(nb::init<>())
      .def("advance", &GrowingCounter::advance, "value"_a);
  nb::class_<SpoolFile>(testing, "SpoolFile", "A file of records that grows.")
      .def(nb::init<const std::string&, const std::string&>(), "path"_a, "header"_a)
      .def(
          "write",
          [](SpoolFile& self, const std::vector<Record>& records) {
            std::vector<CounterRecord> batch;
            for (const auto& [end_ns, rx, tx] : records) batch.push_back({end_ns, rx, tx});
            return self.write(batch);
          },
          "records"_a)
      .def("failure", &SpoolFile::failure);
}
