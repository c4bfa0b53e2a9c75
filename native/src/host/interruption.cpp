#include "host/interruption.hpp"

#include <atomic>
#include <chrono>

#include "cuda/host_clock.hpp"
#include "error.hpp"

namespace lanescope {

namespace {

constexpr std::chrono::milliseconds kBetweenPolls{10};

std::atomic<Interruption> the_look{nullptr};
thread_local std::optional<HostClock::time_point> the_end;

}  // namespace

void look_for_interruptions(Interruption look) {
  the_look = look;
}

void end_work_in(std::optional<double> seconds) {
  the_end.reset();
  if (!seconds) return;
  const std::chrono::duration<double> left(*seconds);
  the_end = HostClock::now() + std::chrono::duration_cast<HostClock::duration>(left);
}

void throw_if_interrupted() {
  thread_local HostClock::time_point looked{};
  const auto now = HostClock::now();
  if (now - looked < kBetweenPolls) return;
  looked = now;
  if (const Interruption look = the_look) look();
  if (the_end && now > *the_end)
    throw Error("throw_if_interrupted", 0, kTooLate, "the time given for it is over");
}

}  // namespace lanescope
