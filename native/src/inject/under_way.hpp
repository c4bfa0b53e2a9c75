#pragma once

#include <cstddef>
#include <cstdint>

#include "inject/copy_call.hpp"
#include "inject/spool_format.hpp"

namespace lanescope::inject {

/// Copies back to pinned memory that a thread has called for, until it has waited for them. Where
/// there are many the oldest are forgotten: a program may wait by other means.
class UnderWay {
 public:
  void add(const HostCopy& copy, const Queue& queue) noexcept;

  /// Forget copies to memory that is used again: either the program has waited for them by other
  /// means, and may have changed what they brought, or they are not over.
  /// @return whether there were any.
  bool forget(std::uint64_t address, std::uint64_t bytes) noexcept;

  /// Take the copies out that a call has waited for, and those that nobody can wait for any more.
  template <class Use>
  void take(const WaitCall& call, Use use) noexcept {
    keep_if([&](const Entry& entry) {
      if (!is_of(entry.queue, call)) return true;
      if (call.ends != Ends::destroyed) use(entry.copy);
      return false;
    });
  }

 private:
  static constexpr std::size_t kMost = 32;

  struct Entry {
    HostCopy copy;
    Queue queue;
  };

  static bool is_of(const Queue& queue, const WaitCall& call) noexcept;

  template <class Stays>
  void keep_if(Stays stays) noexcept {
    std::size_t left = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (stays(entries_[i])) entries_[left++] = entries_[i];
    count_ = left;
  }

  Entry entries_[kMost];
  std::size_t count_ = 0;
};

}  // namespace lanescope::inject
