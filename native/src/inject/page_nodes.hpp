#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace lanescope::inject {

/// Which NUMA node host memory lies on, as the kernel tells without touching it. Answers are kept
/// for a while, so that a program that uses its buffers again and again is not held up. Several
/// threads may ask at once.
class PageNodes {
 public:
  /// @return the node of the page that holds an address; -1 where the kernel does not tell: pages
  /// that were never written to, the driver's own memory, and some containers.
  int node_of(std::uint64_t address) noexcept;

 private:
  static constexpr std::uint64_t kRange = 64 << 10;  // bytes that share an answer
  static constexpr std::size_t kKept = 1024;
  static constexpr std::uint32_t kUses = 1000;  // pages can move, and addresses be used again

  struct Answer {
    std::uint64_t range = 0;
    std::uint32_t uses_left = 0;
    int node = -1;
  };

  std::mutex mutex_;
  std::array<Answer, kKept> answers_;
};

}  // namespace lanescope::inject
