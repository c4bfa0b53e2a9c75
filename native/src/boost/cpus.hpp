#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lanescope::boost {

constexpr int kMostGpus = 32;
constexpr std::uint64_t kNoLimit = UINT64_MAX;

/// CPUs and memory near a GPU.
struct Neighbourhood {
  int node = -1;        ///< Its NUMA node; -1: not known, or there is one only.
  double link_gts = 0;  ///< Its PCIe link at best, giga-transfers a second; 0: not known.
  int link_lanes = 0;
  cpu_set_t cpus{};  ///< Those near it on which this process might run as it began; never empty.
};

/// What this process may use, as the kernel said when CUDA began.
struct Host {
  int gpus = 0;
  std::array<Neighbourhood, kMostGpus> near{};
  double quota = 0;                       ///< CPUs' worth of time of its cgroups; 0: no limit.
  std::uint64_t spare_memory = kNoLimit;  ///< Bytes until a cgroup's limit.
  std::size_t cache = 0;                  ///< Bytes of a last-level cache; 0: not known.
  bool huge_by_advice = false;            ///< Huge pages are given to who asks for them.
};

/// @return what is known of the host; read from /sys and /proc at the first call.
const Host& host() noexcept;

/// @return threads that shall copy for a GPU: `wanted`, where that is not 0; else three of four
/// CPUs that may be used near it, 12 at most, and 0 where there are less than four.
int threads_for(int gpu, int wanted) noexcept;

/// @return `wanted` bytes of pinned memory, or less: an eighth of what a cgroup has left.
std::size_t ring_within_limits(std::size_t wanted) noexcept;

}  // namespace lanescope::boost
