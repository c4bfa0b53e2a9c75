#include "watch/sampling_cost.hpp"

#include <algorithm>
#include <limits>

namespace lanescope::watch {

namespace {

// A piece of so much less than the largest one is small: most of what it takes is no sample's.
constexpr std::uint64_t kSmallPart = 3;

double ns(const SampleWork& work) noexcept {
  return static_cast<double>(work.took.count());
}

}  // namespace

void SamplingCost::begin_again() noexcept {
  pieces_ = 0;
  took_ = {};
  whole_ns_ = sample_ns_ = 0;
}

/// Of a sample, in pieces that are not small.
double SamplingCost::median_ns(double fixed_ns, std::uint64_t fewest) const noexcept {
  std::array<double, kLast> costs{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < size(); ++i)
    if (last_[i].samples >= fewest)
      costs[count++] =
          std::max(ns(last_[i]) - fixed_ns, 0.0) / static_cast<double>(last_[i].samples);
  std::sort(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(count));
  // What holds up only adds: of few a quick one is most likely right.
  return costs[(count - 1) / (count < kLast ? 4 : 2)];
}

void SamplingCost::add(const SampleWork& work) noexcept {
  if (work.samples == 0) return;
  last_[pieces_++ % kLast] = work;
  took_ += work.took;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < size(); ++i) most = std::max(most, last_[i].samples);
  const std::uint64_t large = most / kSmallPart;
  whole_ns_ = median_ns(0, large);
  double least_large = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < size(); ++i) {
    if (last_[i].samples >= large) {
      least_large = std::min(least_large, ns(last_[i]));
      continue;
    }
    const double rest =
        std::max(ns(last_[i]) - whole_ns_ * static_cast<double>(last_[i].samples), 0.0);
    fixed_ns_ = std::min(fixed_ns_.value_or(rest), rest);
  }
  // What takes long once is no reason to think that samples cost nothing.
  const double fixed_ns = std::min(fixed_ns_.value_or(0), least_large / 2);
  sample_ns_ = median_ns(fixed_ns, large);
}

}  // namespace lanescope::watch
