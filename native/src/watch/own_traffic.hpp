#pragma once

#include <cstdint>
#include <deque>

namespace lanescope::watch {

/// When a sampler itself used the link that it samples: to fetch samples it reads and writes in
/// bursts, of 18 KB each way in about 1 ms on an H200.
class OwnTraffic {
 public:
  /// Adds a time, in order (ns of `watch_time_ns`).
  void add(std::uint64_t begin_ns, std::uint64_t end_ns) { times_.push_back({begin_ns, end_ns}); }

  /// Whether there was own traffic between two times; asked in order of time.
  bool during(std::uint64_t start_ns, std::uint64_t end_ns);

 private:
  struct Time {
    std::uint64_t begin_ns, end_ns;
  };
  std::deque<Time> times_;  // that have not passed
};

}  // namespace lanescope::watch
