#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lanescope::boost {

/// Slots of pinned memory, which are used one behind the other and again from the first.
class PinnedRing {
 public:
  static constexpr std::size_t kSlotBytes = 1 << 20, kSegmentSlots = 8, kMostSegments = 8;
  static constexpr std::size_t kMostSlots = kSegmentSlots * kMostSegments;

  /// Get more slots for the current context, until there are `wanted`, in memory of a NUMA node.
  /// Nothing may be in a slot: they get other numbers.
  /// @return whether there are any.
  bool grow(std::size_t wanted, int node) noexcept;

  /// Give all memory back, whose context is no longer there.
  void forget() noexcept;

  [[nodiscard]] std::size_t slots() const noexcept { return segments_ * kSegmentSlots; }
  [[nodiscard]] std::size_t index(std::uint64_t position) const noexcept {
    return position % slots();
  }
  [[nodiscard]] char* slot(std::uint64_t position) const noexcept {
    const std::size_t at = index(position);
    return segment_[at / kSegmentSlots] + at % kSegmentSlots * kSlotBytes;
  }

 private:
  std::array<char*, kMostSegments> segment_{};
  std::size_t segments_ = 0;
  bool is_full_ = false;  // no more can be had
};

}  // namespace lanescope::boost
