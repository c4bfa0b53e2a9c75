#include "lanescope/compression.hpp"

namespace lanescope::compression {

Decider::~Decider() = default;

bool Decider::wants_sample(const Transfer&) {
  return false;
}

void Decider::take_sample(const Transfer&, std::span<const Sampled>) {}

void Decider::learn(const Transfer&, const Decision&, const Outcome&) {}

Decision Always::decide(const Transfer&) {
  return {compress_, std::nullopt, 1, compress_ ? "compression is on" : "compression is off"};
}

}  // namespace lanescope::compression
