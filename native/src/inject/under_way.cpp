#include "inject/under_way.hpp"

namespace lanescope::inject {

namespace {

constexpr std::uint64_t kPerThread = 2;  // the largest number of a default stream

}  // namespace

void UnderWay::add(const HostCopy& copy, const Queue& queue) noexcept {
  if (count_ == kMost) {
    bool is_oldest = true;
    keep_if([&](const Entry&) {
      const bool stays = !is_oldest;
      is_oldest = false;
      return stays;
    });
  }
  entries_[count_++] = {copy, queue};
}

bool UnderWay::forget(std::uint64_t address, std::uint64_t bytes) noexcept {
  const std::size_t before = count_;
  keep_if([&](const Entry& entry) {
    const std::uint64_t at = entry.copy.destination;
    return address - at >= entry.copy.bytes && at - address >= bytes;
  });
  return count_ < before;
}

/// Each context has default streams; the others have their context.
bool UnderWay::is_of(const Queue& queue, const WaitCall& call) noexcept {
  if (call.ends == Ends::context) return queue.context == call.queue.context;
  return queue.stream == call.queue.stream &&
         (queue.stream > kPerThread || queue.context == call.queue.context);
}

}  // namespace lanescope::inject
