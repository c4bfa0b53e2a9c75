#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lanescope::watch {

/// Memory that CUPTI decodes samples into.
///
/// It is made empty again by a copy of what it was at first: on an H200 that costs half of what
/// CUPTI's own call does, and the samples are the same.
class CounterImage {
 public:
  /// `empty`: as CUPTI has initialized it, with room for `samples`. One that is not `reusable`
  /// cannot be cleared, and takes half of the memory.
  CounterImage(std::vector<std::uint8_t> empty, std::size_t samples, bool reusable = true)
      : bytes_(std::move(empty)), samples_(samples) {
    if (reusable) empty_ = bytes_;
  }

  std::uint8_t* data() noexcept { return bytes_.data(); }
  const std::uint8_t* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }

  /// How many samples it has room for.
  std::size_t capacity() const noexcept { return samples_; }

  /// Makes it empty, of which the first `bytes` were written: an image has room for several times
  /// what is expected, 100 MB and more with NVLinks.
  void clear(std::size_t bytes) {
    std::copy_n(empty_.begin(), std::min(bytes, empty_.size()), bytes_.begin());
  }

 private:
  std::vector<std::uint8_t> empty_;
  std::vector<std::uint8_t> bytes_;
  std::size_t samples_;
};

}  // namespace lanescope::watch
