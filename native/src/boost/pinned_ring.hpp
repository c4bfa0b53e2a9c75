#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lanescope::boost {

/// Slots of pinned memory, which are used one behind the other and again from the first. All are of
/// one size, a power of two, which may change while none is in use.
class PinnedRing {
 public:
  static constexpr std::size_t kSegmentBytes = 8 << 20, kMostSegments = 8;
  static constexpr std::size_t kMostBytes = kSegmentBytes * kMostSegments;
  static constexpr std::size_t kLeastSlot = 32 << 10, kMostSlot = 2 << 20;
  static constexpr std::size_t kMostSlots = kMostBytes / kLeastSlot;

  /// Get more memory for the current context, until there are `wanted` bytes, of a NUMA node.
  /// @return whether there are any.
  bool grow(std::size_t wanted, int node) noexcept;

  /// Make slots of so many bytes.
  void divide(std::size_t slot_bytes) noexcept { slot_bytes_ = slot_bytes; }

  /// Give all memory back, whose context is no longer there.
  void forget() noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return segments_ * kSegmentBytes; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  [[nodiscard]] std::size_t slots() const noexcept { return bytes() / slot_bytes_; }
  [[nodiscard]] std::size_t index(std::uint64_t position) const noexcept {
    return position % slots();
  }
  [[nodiscard]] char* slot(std::uint64_t position) const noexcept {
    const std::size_t at = index(position) * slot_bytes_;
    return segment_[at / kSegmentBytes] + at % kSegmentBytes;
  }
  /// @return how many slots from a position on lie one behind the other in memory.
  [[nodiscard]] std::uint64_t in_a_row(std::uint64_t position) const noexcept {
    const std::size_t of_segment = kSegmentBytes / slot_bytes_;
    return of_segment - index(position) % of_segment;
  }

 private:
  std::array<char*, kMostSegments> segment_{};
  std::size_t segments_ = 0, slot_bytes_ = 0;  // until `divide`
  bool is_full_ = false;                       // no more can be had
};

}  // namespace lanescope::boost
