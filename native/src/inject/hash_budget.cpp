#include "inject/hash_budget.hpp"

namespace lanescope::inject {

namespace {

constexpr std::int64_t kAtFirstNs = 150'000'000;
constexpr std::int64_t kPartOfTime = 50;       // 2 %
constexpr std::int64_t kAgainNs = 20'000'000;  // saved until copies are read again
constexpr std::int64_t kBytesPerNs = 5;        // at least

}  // namespace

bool HashBudget::allows(std::uint64_t bytes, std::int64_t now_ns) noexcept {
  const std::int64_t allowed = kAtFirstNs + (now_ns - begin_ns_) / kPartOfTime;
  const std::int64_t left = allowed - spent_ns_.load(std::memory_order_relaxed);
  if (left <= 0) is_on_.store(false, std::memory_order_relaxed);
  if (left >= kAgainNs) is_on_.store(true, std::memory_order_relaxed);
  return is_on_.load(std::memory_order_relaxed) &&
         bytes / kBytesPerNs <= static_cast<std::uint64_t>(left > 0 ? left : 0);
}

}  // namespace lanescope::inject
