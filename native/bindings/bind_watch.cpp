#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "watch/nvml_counters.hpp"
#include "watch/pm_sampler.hpp"
#include "watch/spool_room.hpp"
#include "watch/ticks.hpp"
#include "watch/worker.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::watch::CounterReport;
using lanescope::watch::CounterSpool;
using lanescope::watch::CuptiApi;
using lanescope::watch::Direction;
using lanescope::watch::NvmlApi;
using lanescope::watch::NvmlCounters;
using lanescope::watch::NvmlTarget;
using lanescope::watch::NvmlThroughput;
using lanescope::watch::PmSampler;
using lanescope::watch::SpoolRoom;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

void bind_report(nb::module_& module) {
  nb::class_<CounterReport>(module, "CounterReport",
                            "What a sampler of counters tells when it has stopped.")
      .def_prop_ro("samples", [](const CounterReport& r) { return r.counts.samples; })
      .def_prop_ro("lost_samples", [](const CounterReport& r) { return r.counts.lost; })
      .def_prop_ro("gaps", [](const CounterReport& r) { return r.counts.gaps; })
      .def_ro("restarts", &CounterReport::restarts)
      .def_ro("reads", &CounterReport::reads)
      .def_ro("asked", &CounterReport::asked)
      .def_ro("contradictions", &CounterReport::contradictions)
      .def_prop_ro("formula", [](const CounterReport& r) { return r.formula.state; })
      .def_prop_ro("sample_bytes", [](const CounterReport& r) { return r.formula.sample_bytes; })
      .def_prop_ro("learned_rows", [](const CounterReport& r) { return r.formula.rows; })
      .def_prop_ro("learned_columns", [](const CounterReport& r) { return r.formula.columns; })
      .def_prop_ro("begun_anew", [](const CounterReport& r) { return r.formula.begun_anew; })
      .def_ro("learning_seconds", &CounterReport::learning_seconds)
      .def_ro("cpu_seconds", &CounterReport::cpu_seconds)
      .def_ro("decode_cpu_seconds", &CounterReport::decode_cpu_seconds)
      .def_ro("evaluate_cpu_seconds", &CounterReport::evaluate_cpu_seconds)
      .def_ro("wall_seconds", &CounterReport::wall_seconds)
      .def_ro("restart_seconds", &CounterReport::restart_seconds)
      .def_prop_ro(
          "changes",
          [](const CounterReport& r) {
            std::vector<std::pair<double, std::uint64_t>> changes;
            for (const auto& [at_seconds, interval_ns] : r.changes)
              changes.emplace_back(at_seconds, interval_ns);
            return changes;
          },
          "Since which second samples were taken every so many ns, where not all the time as was "
          "wanted.")
      .def_ro("errors", &CounterReport::errors);
}

void bind_sampler(nb::module_& module) {
  nb::class_<PmSampler>(module, "PmSampler",
                        "Samples bytes on a GPU's link in hardware, into a spool.")
      .def(
          "__init__",
          [](PmSampler* self, int device, std::uint64_t interval_ns,
             std::vector<std::string> metrics, std::size_t hardware_buffer_bytes,
             std::uint64_t decode_period_ns,
             const std::vector<std::pair<std::string, std::string>>& spools,
             const std::string& cupti) {
            std::vector<CounterSpool::Target> targets;
            for (const auto& [path, header] : spools) targets.push_back({path, header});
            new (self) PmSampler({device, interval_ns, std::move(metrics), hardware_buffer_bytes},
                                 decode_period_ns, targets, cupti);
          },
          "device"_a, "interval_ns"_a, "metrics"_a, "hardware_buffer_bytes"_a, "decode_period_ns"_a,
          "spools"_a, "cupti"_a, Release(),
          "Makes everything ready. `metrics`: bytes received and sent, of each kind of link;\n"
          "`spools`: the path and the first line of a spool for each two of them.")
      .def("start", &PmSampler::start, Release())
      .def(
          "settle",
          [](const PmSampler& self, double seconds) {
            self.settle(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
          },
          "seconds"_a, Release(),
          "Waits until it is known that the rate holds, for so long at most.")
      .def("stop", &PmSampler::stop, Release());
  module.def(
      "check_cupti", [](const std::string& path) { CuptiApi{path}; }, "path"_a, Release(),
      "Raises where a libcupti cannot be opened, or cannot sample.");
}

void bind_clock(nb::module_& module) {
  module.def("watch_time_ns", &lanescope::watch::watch_time_ns,
             "ns since 1970 by the clock of watches, which nobody sets.");
  module.def("watch_clock_ahead_ns", &lanescope::watch::watch_clock_ahead_ns,
             "By how much that clock is ahead of CLOCK_MONOTONIC.");
  module.def(
      "watch_ticks",
      [] {
        const auto pair = lanescope::watch::tick_pair();
        return std::tuple(pair.ticks, pair.monotonic_ns);
      },
      "The processor's counter, and CLOCK_MONOTONIC in ns at that time.");
}

void bind_room(nb::module_& module) {
  nb::class_<SpoolRoom>(module, "SpoolRoom", "How much room the spools of a folder have left.")
      .def(nb::init<std::string>(), "folder"_a)
      .def(
          "has",
          [](SpoolRoom& room, std::uint64_t bytes) {
            if (room.allowed(bytes) == lanescope::watch::Fineness::nothing) return false;
            room.wrote(bytes);
            return true;
          },
          "bytes"_a, "Whether so many more may be written; it is taken that they are then.");
}

void bind_nvml(nb::module_& module) {
  using Target = std::tuple<std::string, std::string, std::string>;  // UUID, path, header
  nb::enum_<Direction>(module, "Direction", "What a GPU's link carries, as seen from the GPU.")
      .value("sent", Direction::sent)
      .value("received", Direction::received);
  module.def(
      "wire_counters",
      [](const std::string& uuid) {
        const NvmlApi nvml;
        const auto now = nvml.wire_bytes(nvml.device(uuid));
        return std::tuple(now.time_ns, now.received, now.sent);
      },
      "uuid"_a, Release(), "Time in ns, bytes received and sent by a GPU, modulo 2^32.");
  module.def(
      "nvlink_counters",
      [](const std::string& uuid) {
        const NvmlApi nvml;
        const auto now = nvml.nvlink_kib(nvml.device(uuid));
        return std::tuple(now.time_ns, now.received_kib, now.sent_kib);
      },
      "uuid"_a, Release(), "Time in ns, KiB of payload received and sent over all NVLinks.");
  module.def(
      "link_throughput",
      [](const std::string& uuid, Direction direction) {
        const NvmlApi nvml;
        return nvml.throughput(nvml.device(uuid), direction);
      },
      "uuid"_a, "direction"_a, Release(), "In 1000 bytes per second, of the last 20 ms.");
  nb::class_<NvmlCounters>(module, "NvmlCounters",
                           "Reads the driver's counters of bytes on GPUs' links, into spools.")
      .def(
          "__init__",
          [](NvmlCounters* self, const std::vector<Target>& targets, std::uint64_t period_ns,
             double most_bytes_per_second, const std::vector<Target>& nvlinks,
             std::uint64_t nvlink_period_ns) {
            const auto all = [](const std::vector<Target>& targets) {
              std::vector<NvmlTarget> gpus;
              for (const auto& [uuid, path, header] : targets)
                gpus.push_back({uuid, {path, header}});
              return gpus;
            };
            new (self) NvmlCounters(all(targets), period_ns, most_bytes_per_second, all(nvlinks),
                                    nvlink_period_ns);
          },
          "targets"_a, "period_ns"_a, "most_bytes_per_second"_a,
          "nvlinks"_a = std::vector<Target>{}, "nvlink_period_ns"_a = 10'000'000, Release(),
          "`targets`, `nvlinks`: for each GPU its UUID, the path of its spool, and the first line "
          "of that.")
      .def("start", &NvmlCounters::start, Release())
      .def("stop", &NvmlCounters::stop, Release());
  nb::class_<NvmlThroughput>(module, "NvmlThroughput",
                             "Asks the driver what one direction carried in the last 20 ms.")
      .def(
          "__init__",
          [](NvmlThroughput* self, std::string uuid, Direction direction, std::string path,
             std::string header) {
            new (self)
                NvmlThroughput({std::move(uuid), {std::move(path), std::move(header)}}, direction);
          },
          "uuid"_a, "direction"_a, "path"_a, "header"_a, Release())
      .def("start", &NvmlThroughput::start, Release())
      .def("stop", &NvmlThroughput::stop, Release());
}

}  // namespace

void bind_watch(nb::module_& module) {
  bind_report(module);
  bind_sampler(module);
  bind_clock(module);
  bind_room(module);
  bind_nvml(module);
}
