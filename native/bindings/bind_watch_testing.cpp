#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "watch/counter_stream.hpp"
#include "watch/own_traffic.hpp"
#include "watch/sample_memo.hpp"
#include "watch/spool_file.hpp"
#include "watch/worker.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::watch::CounterRecord;
using lanescope::watch::CounterStream;
using lanescope::watch::GrowingCounter;
using lanescope::watch::OwnTraffic;
using lanescope::watch::SampleMemo;
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

/// Looks up samples of two 4-byte counts, both normally distributed, and tells the memo what it
/// asks for: of how many that was, and how many it told wrongly.
std::pair<std::uint64_t, std::uint64_t> draw(SampleMemo& memo, std::uint64_t samples, double mean,
                                             double first_sigma, double second_sigma,
                                             std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  const auto count = [&](double sigma) {
    return static_cast<std::uint32_t>(std::round(std::fmax(mean + sigma * normal(generator), 0)));
  };
  std::uint64_t asked = 0, wrong = 0;
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::array counts{count(first_sigma), count(second_sigma)};
    const std::array<double, 2> values{static_cast<double>(counts[0]),
                                       static_cast<double>(counts[1])};
    const double* found = memo.find(std::bit_cast<std::array<std::uint8_t, 8>>(counts).data());
    if (found == nullptr) {
      ++asked;
      memo.learn(values);
    } else {
      wrong += found[0] != values[0] || found[1] != values[1];
    }
  }
  return {asked, wrong};
}

void bind_memo(nb::module_& testing) {
  nb::class_<SampleMemo>(testing, "SampleMemo", "Values of samples, found by their bytes.")
      .def(nb::init<std::size_t, std::size_t>(), "bytes"_a, "values"_a)
      .def(
          "find",
          [](SampleMemo& self, const nb::bytes& sample) {
            const double* found = self.find(static_cast<const std::uint8_t*>(sample.data()));
            return found == nullptr ? std::optional<double>() : *found;
          },
          "sample"_a, "The first value, or None.")
      .def(
          "learn",
          [](SampleMemo& self, const std::vector<double>& values,
             const std::vector<std::uint64_t>& times) { self.learn(values, times); },
          "values"_a, "times"_a = std::vector<std::uint64_t>())
      .def("forget", &SampleMemo::forget)
      .def("contradictions", &SampleMemo::contradictions)
      .def("memory_bytes", &SampleMemo::memory_bytes)
      .def("draw", &draw, "samples"_a, "mean"_a, "first_sigma"_a, "second_sigma"_a, "seed"_a,
           "Looks up random samples of 8 bytes; how many it asked for, and told wrongly.");
  nb::class_<OwnTraffic>(testing, "OwnTraffic", "When a sampler used its link.")
      .def(nb::init<>())
      .def("add", &OwnTraffic::add, "begin_ns"_a, "end_ns"_a)
      .def("during", &OwnTraffic::during, "start_ns"_a, "end_ns"_a);
}

}  // namespace

void bind_watch_testing(nb::module_& testing) {
  bind_stream(testing);
  bind_memo(testing);
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
