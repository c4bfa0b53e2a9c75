#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "lanescope/compression.hpp"
#include "library/rule_costs.hpp"

// The rule of the library for C++.

namespace nb = nanobind;
using namespace nb::literals;
namespace lc = lanescope::compression;

namespace {

/// L in GB/s, and a in seconds.
using Link = std::tuple<double, double>;
/// C and D in GB/s, t0 in seconds, S in bytes.
using Cost = std::tuple<double, double, double, std::size_t>;
/// Whether, codec, dimensionality, seconds as it is and compressed, reason.
using Decided =
    std::tuple<bool, lc::Codec, int, std::optional<double>, std::optional<double>, std::string>;

lc::LinkCost link_of(const Link& link) {
  return std::make_from_tuple<lc::LinkCost>(link);
}

lc::CodecCost cost_of(const Cost& cost) {
  return std::make_from_tuple<lc::CodecCost>(cost);
}

Decided decide(lc::Rule& rule, const std::string& tag, const std::string& path, lc::Dtype dtype,
               std::size_t bytes) {
  const lc::Decision made = rule.decide({tag, path, dtype, bytes});
  return {made.compress,           made.codec.value_or(lc::Codec::raw),
          made.dimensionality,     made.raw_seconds,
          made.compressed_seconds, made.reason};
}

void learn(lc::Rule& rule, const std::string& tag, const std::string& path, lc::Dtype dtype,
           std::size_t bytes, bool compress, std::optional<lc::Codec> codec, int dimensionality,
           std::optional<double> predicted, double seconds, std::size_t wire_bytes,
           bool compressed) {
  const lc::Decision decision{compress, codec, dimensionality, {}, {}, predicted};
  rule.learn({tag, path, dtype, bytes}, decision, {seconds, bytes, wire_bytes, compressed});
}

/// Codec, dimensionality, share of the wire.
using Sampled = std::tuple<lc::Codec, int, double>;

void take_sample(lc::Rule& rule, const std::string& tag, const std::string& path, lc::Dtype dtype,
                 std::size_t bytes, const std::vector<Sampled>& sampled) {
  std::vector<lc::Sampled> all;
  for (const Sampled& one : sampled) all.push_back(std::make_from_tuple<lc::Sampled>(one));
  rule.take_sample({tag, path, dtype, bytes}, all);
}

std::optional<Link> link_at(const lc::RawTimes& times, const std::string& path, std::size_t bytes) {
  const auto link = times.link(path, bytes);
  if (!link) return {};
  return Link(link->gbs, link->first_seconds);
}

void bind_costs(nb::module_& module) {
  module.attr("RULE_MARGIN") = lc::kMargin;
  module.attr("RULE_EVERY") = lc::kEvery;
  module.def(
      "compressed_seconds",
      [](double bytes, double ratio, const Cost& codec, const Link& link) {
        return lc::compressed_seconds(bytes, ratio, cost_of(codec), link_of(link));
      },
      "bytes"_a, "ratio"_a, "codec"_a, "link"_a, "What bytes take compressed.");
  module.def(
      "codec_slowness",
      [](double bytes, double ratio, const Cost& codec, const Link& link, double seconds) {
        return lc::slowness_of(bytes, ratio, cost_of(codec), link_of(link), seconds);
      },
      "bytes"_a, "ratio"_a, "codec"_a, "link"_a, "seconds"_a,
      "How many times as slow as `codec` one is by which bytes take so many seconds.");
  module.def(
      "break_even_bytes",
      [](double ratio, const Cost& codec, const Link& link, double margin) {
        return lc::break_even(ratio, cost_of(codec), link_of(link), margin);
      },
      "ratio"_a, "codec"_a, "link"_a, "margin"_a,
      "From how many bytes on compressing takes less than `margin` of the time.");
}

}  // namespace

void bind_rule(nb::module_& module) {
  bind_costs(module);
  nb::class_<lc::RawTimes>(module, "RawTimes",
                           "What transfers as they are take: by path and size class.")
      .def(nb::init<>())
      .def(
          "set_link",
          [](lc::RawTimes& times, const std::string& path, const Link& link) {
            times.set_link(path, link_of(link));
          },
          "path"_a, "link"_a, "Say what a path costs before anything has crossed it.")
      .def("take", &lc::RawTimes::take, "path"_a, "bytes"_a, "seconds"_a)
      .def("seconds", &lc::RawTimes::seconds, "path"_a, "bytes"_a)
      .def("link", &link_at, "path"_a, "bytes"_a, "GB/s and first seconds, or None.");
  // Threads wait for each other inside, and must not hold the interpreter's lock meanwhile.
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<lc::Rule>(module, "Rule", "Decides about transfers, and learns from them.")
      .def(
          "__init__",
          [](lc::Rule* at, const Cost& at_best, std::optional<lc::Codec> codec) {
            new (at) lc::Rule(cost_of(at_best), codec);
          },
          "at_best"_a, "codec"_a.none())
      .def(
          "set_link",
          [](lc::Rule& rule, const std::string& path, const Link& link) {
            rule.set_link(path, link_of(link));
          },
          "path"_a, "link"_a, Released())
      .def("decide", &decide, "tag"_a, "path"_a, "dtype"_a, "bytes"_a, Released())
      .def(
          "wants_sample",
          [](lc::Rule& rule, const std::string& tag, const std::string& path, lc::Dtype dtype,
             std::size_t bytes) { return rule.wants_sample({tag, path, dtype, bytes}); },
          "tag"_a, "path"_a, "dtype"_a, "bytes"_a, Released())
      .def("take_sample", &take_sample, "tag"_a, "path"_a, "dtype"_a, "bytes"_a, "sampled"_a,
           Released())
      .def("learn", &learn, "tag"_a, "path"_a, "dtype"_a, "bytes"_a, "compress"_a, "codec"_a.none(),
           "dimensionality"_a, "predicted_seconds"_a.none(), "seconds"_a, "wire_bytes"_a,
           "compressed"_a, Released());
}
