#pragma once

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#define LANESCOPE_LANES __host__ __device__
#else
#define LANESCOPE_LANES
#endif

namespace lanescope::compress {

inline constexpr int kLanes = 32;

/// 32 lanes in step, on the host: each value is an array, and each step a loop over the lanes.
///
/// A codec is a template over this class and over one of the same shape for a GPU, where a warp is
/// 32 threads and each of them holds its own lane's value. So it says `each` for what every lane
/// does by itself, and calls one of the others where lanes look at each other.
struct HostWarp {
  template <typename T>
  struct Lanes {
    std::array<T, kLanes> at;  // Holds nothing until it is written, as a register.
    T& operator[](int lane) { return at[static_cast<std::size_t>(lane)]; }
    const T& operator[](int lane) const { return at[static_cast<std::size_t>(lane)]; }
  };

  /// Calls `step(lane)` for every lane.
  template <typename Step>
  void each(Step step) const {
    for (int lane = 0; lane < kLanes; ++lane) step(lane);
  }

  /// A bit for each lane.
  std::uint32_t ballot(const Lanes<bool>& flags) const {
    std::uint32_t bits = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      bits |= static_cast<std::uint32_t>(flags[lane]) << lane;
    return bits;
  }

  /// All lanes' bits together.
  template <typename T>
  T any_bits(const Lanes<T>& values) const {
    T bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits |= values[lane];
    return bits;
  }

  /// The sum over the lanes before each one; `total` gets that of all.
  Lanes<std::uint32_t> sum_before(const Lanes<std::uint32_t>& values, std::uint32_t& total) const {
    Lanes<std::uint32_t> sums;
    total = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      sums[lane] = total;
      total += values[lane];
    }
    return sums;
  }

  /// What the lane `source[lane]` has, for every lane.
  template <typename T>
  Lanes<T> from(const Lanes<T>& values, const Lanes<int>& source) const {
    Lanes<T> got;
    for (int lane = 0; lane < kLanes; ++lane) got[lane] = values[source[lane]];
    return got;
  }

  /// Waits until what lanes wrote to memory can be read by the others.
  void sync() const {}
};

}  // namespace lanescope::compress
