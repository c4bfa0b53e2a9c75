#include "boost/decision.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace lanescope::boost {

namespace {

constexpr double kMargin = 0.97;
constexpr double kShare = 0.05, kFreeSeconds = 10e-3;
constexpr std::uint32_t kLeastPatience = 64, kMostPatience = 1024;
constexpr std::size_t kReach = 4;  // sizes: a copy of 1 MiB tells little of one of 32

constexpr Carrier other(Carrier carrier) {
  return carrier == Carrier::ring ? Carrier::driver : Carrier::ring;
}

constexpr std::size_t index_of(Carrier carrier) {
  return carrier == Carrier::ring ? 1 : 0;
}

constexpr std::size_t index_of(Direction direction) {
  return direction == Direction::to_gpu ? 0 : 1;
}

std::size_t size_of(const Kind& kind, std::size_t sizes) {
  const auto width = static_cast<std::size_t>(std::bit_width(kind.bytes));
  return std::min(width, sizes - 1);
}

}  // namespace

double Decision::Outcomes::middle() const noexcept {
  const std::size_t known = std::min<std::size_t>(count, kRecent);
  if (known == 0) return 0;
  std::array<float, kRecent> sorted = rates;
  std::sort(sorted.begin(), sorted.begin() + known);
  return static_cast<double>(sorted[known / 2]);
}

Decision::Class& Decision::class_of(const Kind& kind) noexcept {
  return classes_[index_of(kind.direction)][kind.fresh ? 1 : 0][size_of(kind, kSizes)];
}

double Decision::rate(const Kind& kind, Carrier carrier) const noexcept {
  const auto& sizes = classes_[index_of(kind.direction)][kind.fresh ? 1 : 0];
  const std::size_t at = size_of(kind, kSizes);
  for (std::size_t distance = 0; distance <= kReach; ++distance)
    for (const std::size_t near : {at - distance, at + distance})
      if (near < kSizes)
        if (const double found = sizes[near].of[index_of(carrier)].middle(); found > 0)
          return found;
  return 0;
}

double Decision::expected(const Kind& kind, Carrier carrier) const noexcept {
  return rate(kind, carrier) * static_cast<double>(kind.bytes);
}

Carrier Decision::better(const Kind& kind) const noexcept {
  const double by_ring = rate(kind, Carrier::ring), by_driver = rate(kind, Carrier::driver);
  const bool known = by_ring > 0 && by_driver > 0;
  return known && by_ring >= kMargin * by_driver ? Carrier::driver : Carrier::ring;
}

/// @return whether a trial may be made. One that nothing is known of is thought to take twice as
/// long as the other carrier.
bool Decision::affords(const Kind& kind, Carrier carrier) const noexcept {
  const double best = expected(kind, other(carrier)), known = expected(kind, carrier);
  const double cost = known > 0 ? std::max(known - best, 0.0) : best;
  const Budget& budget = budgets_[index_of(kind.direction)];
  return budget.lost_seconds + cost <= kFreeSeconds + kShare * budget.spent_seconds;
}

Choice Decision::choose(const Kind& kind) noexcept {
  Class& its = class_of(kind);
  const Choice choice = choose_of(its, kind);
  its.in_a_row = choice.carrier == its.running ? its.in_a_row + 1 : 1;
  its.running = choice.carrier;
  return choice;
}

Choice Decision::choose_of(Class& its, const Kind& kind) noexcept {
  const Carrier best = better(kind);
  const auto tries = [&](Carrier carrier) { return its.of[index_of(carrier)].count; };
  ++its.since_trial;
  if (tries(best) < kTrials && tries(best) <= tries(other(best))) return {best, true};
  if (tries(other(best)) < kTrials)
    return affords(kind, other(best)) ? Choice{other(best), true} : Choice{best, false};
  if (std::exchange(its.tries_again, false)) return {other(best), true};
  if (best != its.last) its.patience = kLeastPatience;
  its.last = best;
  if (its.since_trial <= std::max(its.patience, kLeastPatience) || !affords(kind, other(best)))
    return {best, false};
  its.since_trial = 0;
  its.tries_again = true;
  its.patience = std::min(2 * std::max(its.patience, kLeastPatience), kMostPatience);
  return {other(best), true};
}

bool Decision::leaves_to_driver(const Kind& kind) noexcept {
  Class& its = class_of(kind);
  if (its.running != Carrier::driver || its.last != Carrier::driver || its.tries_again ||
      its.since_trial >= std::max(its.patience, kLeastPatience))
    return false;
  for (const Outcomes& one : its.of)
    if (one.count < kTrials) return false;
  if (better(kind) != Carrier::driver) return false;
  ++its.since_trial;
  ++its.in_a_row;
  return true;
}

void Decision::learn(const Kind& kind, Carrier carrier, double seconds) noexcept {
  if (!(seconds > 0) || kind.bytes == 0) return;
  Budget& budget = budgets_[index_of(kind.direction)];
  const double best = expected(kind, other(carrier));
  budget.spent_seconds += seconds;
  if (better(kind) != carrier && best > 0) budget.lost_seconds += std::max(seconds - best, 0.0);
  Class& alike = class_of(kind);
  if (alike.running != carrier || alike.in_a_row < 2) return;
  Outcomes& its = alike.of[index_of(carrier)];
  const double found = seconds / static_cast<double>(kind.bytes);
  // What was slower and is faster now: older outcomes are of another time.
  if (better(kind) != carrier && found < kMargin * rate(kind, other(carrier))) its.count = 0;
  its.add(static_cast<float>(found));
}

}  // namespace lanescope::boost
