#include "watch/own_traffic.hpp"

namespace lanescope::watch {

namespace {

// The GPU's clock and the host's agree to some microseconds, and what was written arrives later.
constexpr std::uint64_t kMarginNs = 50'000;

}  // namespace

bool OwnTraffic::during(std::uint64_t start_ns, std::uint64_t end_ns) {
  while (!times_.empty() && times_.front().end_ns + kMarginNs <= start_ns) times_.pop_front();
  return !times_.empty() && times_.front().begin_ns < end_ns + kMarginNs;
}

}  // namespace lanescope::watch
