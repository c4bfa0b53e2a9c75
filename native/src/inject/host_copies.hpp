#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "inject/copy_call.hpp"
#include "inject/hash_budget.hpp"
#include "inject/page_nodes.hpp"
#include "inject/sent_parts.hpp"
#include "inject/settings.hpp"
#include "inject/spool_format.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::inject {

/// What calls that copy were passed, and of the host's memory its node and its content, until it
/// is taken to be written. Several threads may use it at once.
class HostCopies {
 public:
  explicit HostCopies(const Settings& settings)
      : settings_(settings), budget_(watch::clock_ns(CLOCK_MONOTONIC)) {}

  /// Note a call that has succeeded; the memory is the program's and still there.
  /// @param correlation its number; of a call within a call both have the same.
  /// @return whether so many wait that they should be written.
  bool add(const CopyCall& call, std::uint32_t correlation) noexcept;

  /// Note what a call of this thread has waited for: what came back by it is there.
  /// @return as `add`.
  bool waited(const WaitCall& call) noexcept;

  /// Take what waits.
  /// @param lost is increased by what was not kept.
  std::vector<HostCopy> take(std::uint64_t& lost) noexcept;

 private:
  void look_at(HostCopy& copy, const CopyCall& call) noexcept;
  bool look_again(HostCopy& copy) noexcept;
  void spend(HostCopy& copy) noexcept;
  bool append(const HostCopy& copy) noexcept;

  static constexpr std::size_t kMost = 1 << 16;
  static constexpr std::size_t kMany = 1 << 14;

  const Settings& settings_;
  PageNodes nodes_;
  HashBudget budget_;
  SentParts sent_parts_;
  std::mutex mutex_;
  std::vector<HostCopy> waiting_;
  std::uint64_t lost_ = 0;
};

}  // namespace lanescope::inject
