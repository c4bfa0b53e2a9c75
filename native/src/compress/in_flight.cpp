#include "compress/in_flight.hpp"

#include <chrono>
#include <thread>

namespace lanescope::compress {

void InFlight::reap() {
  // They end in order, or nearly so: what waits behind another keeps a little memory for longer.
  for (; !tickets_.empty() && tickets_.front()->done(); tickets_.pop_front())
    reports_.take_back(tickets_.front()->take_report());
}

bool InFlight::all_end_within(double patience_s) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto late = Clock::now() + std::chrono::duration<double>(patience_s);
  try {
    for (reap(); !tickets_.empty(); reap()) {
      if (Clock::now() > late) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  } catch (const Error&) {  // a device that failed has nothing under way that could be waited for
    return false;
  }
  return true;
}

}  // namespace lanescope::compress
