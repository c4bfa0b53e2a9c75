#pragma once

#include <cstddef>
#include <cstdint>

namespace lanescope::inject {

/// The number of `content_hash`, of bytes that come in parts.
class ContentHash {
 public:
  static constexpr std::size_t kBlock = 64;

  ContentHash() noexcept;

  /// Add the next bytes: whole blocks, but for the last ones.
  void add(const void* bytes, std::size_t size) noexcept;

  [[nodiscard]] std::uint64_t value() const noexcept;

 private:
  // Eight chains that do not wait for each other: a multiplication takes three cycles or more, and
  // one can begin in each.
  static constexpr int kLanes = kBlock / sizeof(std::uint64_t);

  std::uint64_t lanes_[kLanes];
  std::uint64_t size_ = 0;
};

/// @return a number for the content of `size` bytes, all of which are read. Contents of one size
/// that differ in one aligned word of 8 bytes always differ in it; others do but for chances of
/// 1 in 2^64. It keeps no secrets: contents can be made to have the same.
std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept;

}  // namespace lanescope::inject
