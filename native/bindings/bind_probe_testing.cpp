#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "error.hpp"
#include "watch/link_probe.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using lanescope::Error;
using lanescope::watch::LinkProbe;
using lanescope::watch::ProbedLink;
using lanescope::watch::ProbeRecord;
using lanescope::watch::ProbeRounds;
using lanescope::watch::ProbeSettings;
using lanescope::watch::ProbeWay;

namespace {

using Record = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>;
using Copy = std::pair<std::uint32_t, std::size_t>;  // way, bytes

/// A link whose copies take what a test says; the next one never ends, or fails.
class ProgrammedLink : public ProbedLink {
 public:
  ProgrammedLink(std::vector<std::uint64_t> times_ns, bool fails)
      : times_ns_(std::move(times_ns)), fails_(fails) {}

  void enter() override {}
  std::uint64_t now_ns() override { return now_ns_; }

  std::optional<std::uint64_t> copy(ProbeWay way, std::size_t bytes,
                                    const Stopping& stopping) override {
    copies_.emplace_back(static_cast<std::uint32_t>(way), bytes);
    if (copies_.size() > times_ns_.size()) return beyond(stopping);
    const std::uint64_t took = times_ns_[copies_.size() - 1];
    now_ns_ += took;
    return took;
  }

  const std::vector<Copy>& copies() const noexcept { return copies_; }

 private:
  std::optional<std::uint64_t> beyond(const Stopping& stopping) const {
    if (fails_) throw Error("cudaStreamQuery", 719, "cudaErrorLaunchFailure", "the GPU is lost");
    while (!stopping()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return std::nullopt;
  }

  std::vector<std::uint64_t> times_ns_;
  bool fails_;
  std::uint64_t now_ns_ = 0;
  std::vector<Copy> copies_;
};

/// Rounds over such a link.
struct ProgrammedRounds {
  ProgrammedRounds(std::vector<std::uint64_t> times_ns, const ProbeSettings& settings)
      : link(std::move(times_ns), true), rounds(link, settings) {}

  ProgrammedLink link;
  ProbeRounds rounds;
};

std::vector<Record> run_round(ProgrammedRounds& self) {
  std::vector<ProbeRecord> records;
  self.rounds.run([] { return false; }, records);
  std::vector<Record> found;
  for (const ProbeRecord& record : records)
    found.emplace_back(record.begin_ns, record.delay_ns, record.copy_ns, record.direction);
  return found;
}

}  // namespace

void bind_probe_testing(nb::module_& testing) {
  nb::class_<ProgrammedRounds>(testing, "ProgrammedRounds",
                               "Rounds of a probe whose copies take `times_ns`.")
      .def(
          "__init__",
          [](ProgrammedRounds* self, std::vector<std::uint64_t> times_ns, std::size_t chunk_bytes,
             std::uint64_t period_ns, double most_share) {
            new (self) ProgrammedRounds(std::move(times_ns), {chunk_bytes, period_ns, most_share});
          },
          "times_ns"_a, "chunk_bytes"_a, "period_ns"_a = 0, "most_share"_a = 1.0)
      .def("run", &run_round, "One round: begin, delay, copy in ns, and direction of each record.")
      .def("copies", [](const ProgrammedRounds& self) { return self.link.copies(); })
      .def(
          "next_after",
          [](const ProgrammedRounds& self, std::uint64_t ns) { return self.rounds.next_after(ns); },
          "round_ns"_a);
  testing.def(
      "programmed_probe",
      [](std::vector<std::uint64_t> times_ns, bool fails, std::uint64_t period_ns, std::string path,
         std::string header) {
        return std::make_unique<LinkProbe>(
            std::make_unique<ProgrammedLink>(std::move(times_ns), fails),
            ProbeSettings{4096, period_ns, 1.0},
            lanescope::watch::CounterSpool::Target{std::move(path), std::move(header)});
      },
      "times_ns"_a, "fails"_a, "period_ns"_a, "path"_a, "header"_a,
      "A probe whose copies take `times_ns`; the next one never ends, or `fails`.");
}
