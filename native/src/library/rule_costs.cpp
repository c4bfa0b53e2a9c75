#include "library/rule_costs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lanescope::compression {

namespace {

constexpr double kBytesPerGb = 1e9;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;  // beyond it nobody asks

/// Seconds of the first and last slab, of the slower codec, and of the link.
struct Parts {
  double fill, working, crossing;
};

Parts parts_of(double bytes, double ratio, const CodecCost& codec, const LinkCost& link) {
  const double c = codec.compress_gbs * kBytesPerGb, d = codec.decompress_gbs * kBytesPerGb;
  const double fill = std::min(static_cast<double>(codec.slab_bytes), bytes) * (1 / c + 1 / d);
  const double crossing = std::isinf(ratio) ? 0 : bytes / ratio / (link.gbs * kBytesPerGb);
  return {fill, bytes / std::min(c, d), crossing};
}

}  // namespace

CodecCost slower(CodecCost codec, double times) {
  codec.compress_gbs /= times;
  codec.decompress_gbs /= times;
  return codec;
}

double raw_seconds(double bytes, const LinkCost& link) {
  return link.first_seconds + bytes / (link.gbs * kBytesPerGb);
}

double compressed_seconds(double bytes, double ratio, const CodecCost& codec,
                          const LinkCost& link) {
  const Parts parts = parts_of(bytes, ratio, codec, link);
  return link.first_seconds + codec.start_seconds + parts.fill +
         std::max(parts.working, parts.crossing);
}

double slowness_of(double bytes, double ratio, const CodecCost& codec, const LinkCost& link,
                   double seconds) {
  const Parts parts = parts_of(bytes, ratio, codec, link);
  const double left = std::max(seconds - link.first_seconds - codec.start_seconds, 0.0);
  const double by_codec = left / (parts.fill + parts.working);
  if (by_codec * parts.working >= parts.crossing) return by_codec;
  return std::max(left - parts.crossing, 0.0) / parts.fill;
}

std::optional<std::uint64_t> break_even(double ratio, const CodecCost& codec, const LinkCost& link,
                                        double margin) {
  const auto pays = [&](std::uint64_t bytes) {
    const auto size = static_cast<double>(bytes);
    return compressed_seconds(size, ratio, codec, link) < margin * raw_seconds(size, link);
  };
  if (!pays(kMostBytes)) return {};
  std::uint64_t low = 0, high = kMostBytes;
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    (pays(middle) ? high : low) = middle;
  }
  return high;
}

int size_class(std::size_t bytes) {
  return static_cast<int>(std::bit_width(bytes));
}

bool RawTimes::take(const std::string& path, std::size_t bytes, double seconds) {
  const auto expected = this->seconds(path, bytes);
  auto& timed = timed_[path][size_class(bytes)];
  const double times = expected ? seconds / *expected : 1;
  return timed.take({static_cast<double>(bytes), seconds}, times) || timed.unlike() != 0;
}

std::optional<double> RawTimes::seconds(const std::string& path, std::size_t bytes) const {
  const Known all = known(path);
  const auto found = all.find(size_class(bytes));
  if (found == all.end()) {
    const auto given = given_.find(path);
    if (given == given_.end()) return {};
    return raw_seconds(static_cast<double>(bytes), given->second);
  }
  const Timed& timed = found->second;
  const double least = std::min(first_seconds(path), timed.seconds);
  return least + (timed.seconds - least) * static_cast<double>(bytes) / timed.bytes;
}

std::optional<LinkCost> RawTimes::link(const std::string& path, std::size_t bytes) const {
  const auto all = seconds(path, bytes);
  if (!all || bytes == 0) return {};
  // a measured time may be shorter than the given a: some part of it is for the bytes
  const double first = std::min(first_seconds(path), *all / 2);
  return LinkCost{static_cast<double>(bytes) / (*all - first) / kBytesPerGb, first};
}

RawTimes::Known RawTimes::known(const std::string& path) const {
  Known found;
  if (const auto of = timed_.find(path); of != timed_.end())
    for (const auto& [size, timed] : of->second)
      if (timed.count() > 1)  // the first one may have had to wait
        found.emplace(size, timed.middle([](const Timed& one) { return one.seconds / one.bytes; }));
  return found;
}

/// a: the given link's, or where the line through least and most bytes begins.
double RawTimes::first_seconds(const std::string& path) const {
  if (const auto given = given_.find(path); given != given_.end())
    return given->second.first_seconds;
  const Known all = known(path);
  if (all.size() < 2) return 0;
  const Timed &least = all.begin()->second, &most = all.rbegin()->second;
  const double per_byte = (most.seconds - least.seconds) / (most.bytes - least.bytes);
  return std::min(std::max(least.seconds - least.bytes * per_byte, 0.0), least.seconds);
}

}  // namespace lanescope::compression
