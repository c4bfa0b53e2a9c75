#include "inject/buffer_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace lanescope::inject {

std::uint8_t* BufferPool::take() noexcept {
  std::uint8_t* buffer = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      // From the heap: should another tool come to own it, it frees what malloc made.
      buffer = static_cast<std::uint8_t*>(std::calloc(1, kBytes));
      if (buffer == nullptr) return nullptr;
    } else {
      buffer = free_.back();
      free_.pop_back();
    }
    lent_.insert(buffer);
    return buffer;
  } catch (...) {
    std::free(buffer);
    return nullptr;
  }
}

void BufferPool::give_back(std::uint8_t* buffer, std::size_t used) noexcept {
  bool keep = false;
  {
    const std::lock_guard lock(mutex_);
    if (lent_.erase(buffer) == 0) return;
    keep = free_.size() < kKept;
  }
  if (!keep) return std::free(buffer);
  std::memset(buffer, 0, std::min(used, kBytes));  // here, not in the program's threads
  try {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer);
  } catch (...) {
    std::free(buffer);
  }
}

}  // namespace lanescope::inject
