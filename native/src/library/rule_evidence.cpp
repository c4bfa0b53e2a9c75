#include "library/rule_evidence.hpp"

#include <algorithm>
#include <cstdlib>

namespace lanescope::compression {

namespace {

constexpr int kShareMemory = 12, kSpreadMemory = 32;
constexpr int kLookWait = 8;        // decisions that a look is waited for
constexpr int kDoubtEvery = 16;     // decisions
constexpr int kDoubtTransfers = 2;  // which begin a link's times anew where both are off
constexpr double kMostWeight = 8;
constexpr double kClearlyApart = 0.01;  // square of the shares that tags lie apart

}  // namespace

void ShareOf::take(double newest) {
  count = looked ? 1 : std::min(count + 1, kShareMemory);  // whole arrays say more than blocks
  looked = false;
  share += (newest - share) / count;
  if (count == kShareMemory) anew = false;
}

void LookTimes::take(int decisions) {
  last_ = decisions;
  patience_ = std::clamp(2 * patience_, kFirstPatience, kEvery);
}

ShareOf* Evidence::share_of(Codec codec) {
  const auto found = std::find_if(shares.begin(), shares.end(),
                                  [codec](const ShareOf& one) { return one.codec == codec; });
  return found == shares.end() ? nullptr : &*found;
}

SpeedOf* Evidence::speed_of(Codec codec, int size) {
  const auto found = std::find_if(speeds.begin(), speeds.end(), [&](const SpeedOf& one) {
    return one.codec == codec && one.size == size;
  });
  return found == speeds.end() ? nullptr : &*found;
}

const SpeedOf* Evidence::nearest_speed(Codec codec, int size) const {
  const SpeedOf* nearest = nullptr;
  for (const SpeedOf& one : speeds)
    if (one.codec == codec &&
        (nearest == nullptr || std::abs(one.size - size) < std::abs(nearest->size - size)))
      nearest = &one;
  return nearest;
}

SpeedOf& Evidence::new_speed(Codec codec, int size) {
  if (SpeedOf* known = speed_of(codec, size)) return *known;
  return speeds.emplace_back(SpeedOf{codec, size});
}

ShareOf& Evidence::set_share(Codec codec, int dimensionality, double share) {
  if (ShareOf* known = share_of(codec)) return *known = {codec, dimensionality, share};
  return shares.emplace_back(ShareOf{codec, dimensionality, share});
}

bool PoolEvidence::is_first(Codec codec) {
  if (std::find(warm.begin(), warm.end(), codec) != warm.end()) return false;
  warm.push_back(codec);
  return true;
}

bool PoolEvidence::waiting() const {
  return pending.has_value() && decisions - last_trial < kEvery;
}

bool PoolEvidence::looks() const {
  return looking && decisions - *looking < kLookWait;
}

void PoolEvidence::begin_trial(std::optional<Codec> codec) {
  last_trial = decisions;
  pending = codec;
  ++turn;
}

void PoolEvidence::Spread::take(double difference) {
  count = std::min(count + 1, kSpreadMemory);
  mean += (difference * difference - mean) / count;
}

void PoolEvidence::take_difference(std::optional<double> of_tag, std::optional<double> of_all) {
  if (of_tag) within_tag_.take(*of_tag);
  if (of_all) in_all_.take(*of_all);
}

double PoolEvidence::weight() const {
  if (within_tag_.count == 0) return 1;
  const double between = std::max(in_all_.mean - within_tag_.mean, 1e-9);
  return std::min(within_tag_.mean / between, kMostWeight);
}

bool PoolEvidence::tags_differ() const {
  return in_all_.mean - within_tag_.mean > kClearlyApart;
}

void PoolEvidence::doubt() {
  if (last_doubt != 0 && decisions - last_doubt < kDoubtEvery) return;
  last_doubt = decisions;
  doubts = kDoubtTransfers;
  raw_patience = kEvery;
}

}  // namespace lanescope::compression
