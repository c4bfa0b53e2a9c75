#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace lanescope::inject {

/// Buffers of zeros that CUPTI writes its records into. Several threads may use it at once.
class BufferPool {
 public:
  static constexpr std::size_t kBytes = 512 << 10;

  /// @return a buffer of kBytes zeros, or null where memory lacks. The pool stays its owner.
  std::uint8_t* take() noexcept;

  /// Take a buffer back whose first `used` bytes were written. One that is not of this pool,
  /// another tool's, is left alone.
  void give_back(std::uint8_t* buffer, std::size_t used) noexcept;

 private:
  static constexpr std::size_t kKept = 16;

  std::mutex mutex_;
  std::vector<std::uint8_t*> free_;
  std::unordered_set<std::uint8_t*> lent_;
};

}  // namespace lanescope::inject
