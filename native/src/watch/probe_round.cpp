#include "watch/probe_round.hpp"

#include <algorithm>
#include <limits>

#include "error.hpp"

namespace lanescope::watch {

namespace {

constexpr std::size_t kMostRoundBytes = std::size_t{1} << 30;
// A round that waited as long did so for another process's turn on the GPU. On an H200 412 rounds
// in a second, which is as many as there were turns, slowed a program that computes by 17 %; a
// round every 3 ms did, too, and one every 5 ms by 7 %.
constexpr std::uint64_t kWaitedNs = 300'000, kSharedPeriodNs = 5'000'000;
constexpr std::uint64_t kUnknownNs = std::numeric_limits<std::uint64_t>::max();
constexpr std::array kWays{ProbeWay::h2d, ProbeWay::d2h};

std::uint32_t stored(std::uint64_t ns) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ns, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

void require_sound(const ProbeSettings& settings) {
  if (settings.chunk_bytes < kDelayBytes || settings.chunk_bytes > kMostRoundBytes)
    throw Error("LinkProbe", 0, "bad probe", "a chunk is from 4 B to 1 GiB");
  if (!(settings.most_share > 0 && settings.most_share <= 1))
    throw Error("LinkProbe", 0, "bad probe", "the share of the link is above 0 and at most 1");
}

ProbeRounds::ProbeRounds(ProbedLink& link, const ProbeSettings& settings)
    : link_(link), settings_(settings) {
  require_sound(settings);
  fastest_ns_.fill(kUnknownNs);
}

bool ProbeRounds::run(const ProbedLink::Stopping& stopping, std::vector<ProbeRecord>& records) {
  for (const ProbeWay way : kWays) {
    const std::uint64_t begin = link_.now_ns();
    const auto delay = link_.copy(way, kDelayBytes, stopping);
    if (!delay) return false;
    const auto chunk = link_.copy(way, settings_.chunk_bytes, stopping);
    if (!chunk) return false;
    const auto number = static_cast<std::uint32_t>(way);
    fastest_ns_[number] = std::min(fastest_ns_[number], *chunk);
    records.push_back({begin, stored(*delay), stored(*chunk), number, 0});
  }
  return true;
}

std::uint64_t ProbeRounds::next_after(std::uint64_t round_ns) const noexcept {
  if (settings_.period_ns == 0 && settings_.most_share == 1)
    return round_ns < kWaitedNs ? round_ns : std::max(round_ns, kSharedPeriodNs);
  const std::uint64_t fastest = *std::max_element(fastest_ns_.begin(), fastest_ns_.end());
  const double least =
      fastest == kUnknownNs ? 0.0 : static_cast<double>(fastest) / settings_.most_share;
  const std::uint64_t period = std::max(settings_.period_ns, static_cast<std::uint64_t>(least));
  return std::max(period, round_ns + period / 2);
}

}  // namespace lanescope::watch
