#pragma once

#include <atomic>
#include <cstdint>

namespace lanescope::inject {

/// How long threads may read what was copied, so that a program does not get slow by it: a while
/// at its beginning, and a small share of its time since. Copies that follow each other are read
/// together, or none of them, as what one brings back another one may send.
class HashBudget {
 public:
  explicit HashBudget(std::int64_t begin_ns) noexcept : begin_ns_(begin_ns) {}

  /// @return whether so many bytes may be read now.
  bool allows(std::uint64_t bytes, std::int64_t now_ns) noexcept;

  void spend(std::int64_t ns) noexcept { spent_ns_.fetch_add(ns, std::memory_order_relaxed); }

 private:
  const std::int64_t begin_ns_;
  std::atomic<std::int64_t> spent_ns_{0};
  std::atomic<bool> is_on_{true};
};

}  // namespace lanescope::inject
