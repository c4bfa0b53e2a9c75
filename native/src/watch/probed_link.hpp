#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace lanescope::watch {

/// Which way a probe's copy goes; the numbers are those of its records.
enum class ProbeWay : std::uint32_t { h2d = 0, d2h = 1 };

/// A link that copies can be sent over, one at a time: a GPU's, or one that a test makes up.
class ProbedLink {
 public:
  /// Whether whoever waits should stop waiting.
  using Stopping = std::function<bool()>;

  virtual ~ProbedLink() = default;

  /// Called once by the thread that will copy, before anything else. Throws `Error`.
  virtual void enter() = 0;

  /// ns of `watch_time_ns`.
  virtual std::uint64_t now_ns() = 0;

  /// Copies `bytes` bytes and returns how long that took on the host's clock, in ns; none, at
  /// once, when `stopping` says so before the copy has ended. Throws `Error`.
  virtual std::optional<std::uint64_t> copy(ProbeWay way, std::size_t bytes,
                                            const Stopping& stopping) = 0;
};

}  // namespace lanescope::watch
