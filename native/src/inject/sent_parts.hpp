#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inject/spool_format.hpp"

namespace lanescope::inject {

/// The numbers of the parts of what was sent to GPUs last, by its place there and by its size, so
/// that data is found of which little has changed. Several threads may use it at once.
class SentParts {
 public:
  /// Read what a copy sends, and note how much of it the last copy to its place, or the last one of
  /// its size, has sent at the same offsets.
  /// @return its `content_hash`.
  std::uint64_t hash(HostCopy& copy) noexcept;

 private:
  using Parts = std::shared_ptr<const std::vector<std::uint64_t>>;

  std::uint64_t same_bytes(const HostCopy& copy, const Parts& parts);

  std::mutex mutex_;
  std::map<std::uint64_t, Parts> at_;  // by destination
  std::map<std::uint64_t, Parts> of_;  // by size
  std::size_t held_ = 0;               // numbers, and what entries take, in numbers
};

}  // namespace lanescope::inject
