#pragma once

#include <cstddef>
#include <cstdint>

namespace lanescope::inject {

/// Data that is sent again is compared by parts of so many bytes, the last one excepted.
constexpr std::size_t kPartBytes = 4096;

/// @return whether the number of a part says that all of its words of 8 bytes are the same.
constexpr bool is_uniform_part(std::uint64_t number) noexcept {
  return (number & 1) != 0;
}

/// The number of `content_hash`, of bytes that come in pieces.
class ContentHash {
 public:
  /// @param parts has room for the number of each part, in their order; may be null. See
  /// `is_uniform_part`.
  explicit ContentHash(std::uint64_t* parts = nullptr) noexcept : parts_(parts) {}

  /// Add the next bytes: whole parts, but for the last ones.
  void add(const void* bytes, std::size_t size) noexcept;

  [[nodiscard]] std::uint64_t value() const noexcept;

 private:
  std::uint64_t* parts_;
  std::uint64_t state_ = 0;
  std::uint64_t size_ = 0;
};

/// @return a number for the content of `size` bytes, all of which are read. Contents of one size
/// that differ in one aligned word of 8 bytes always differ in it; others nearly always do.
/// Contents can be made to have the same: it keeps no secrets, and finds no forgeries.
std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept;

}  // namespace lanescope::inject
