#pragma once

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
  /// `empty`: as CUPTI has initialized it, with room for `samples`.
  CounterImage(std::vector<std::uint8_t> empty, std::size_t samples)
      : empty_(std::move(empty)), bytes_(empty_), samples_(samples) {}

  std::uint8_t* data() noexcept { return bytes_.data(); }
  const std::uint8_t* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }

  /// How many samples it has room for.
  std::size_t capacity() const noexcept { return samples_; }

  /// Makes it empty.
  void clear() { bytes_ = empty_; }

 private:
  std::vector<std::uint8_t> empty_;
  std::vector<std::uint8_t> bytes_;
  std::size_t samples_;
};

}  // namespace lanescope::watch
