#include "lanescope/interruption.hpp"

#include <atomic>
#include <chrono>

namespace lanescope {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{10};

std::atomic<Interruption> the_look{nullptr};

}  // namespace

void look_for_interruptions(Interruption look) {
  the_look = look;
}

void throw_if_interrupted() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point looked{};
  const Interruption look = the_look.load(std::memory_order_relaxed);
  if (look == nullptr) return;
  const auto now = Clock::now();
  if (now - looked < kBetweenLooks) return;
  looked = now;
  look();
}

}  // namespace lanescope
