#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>

namespace lanescope::boost {

/// Copies to a GPU that go there together, in no order: what they write does not overlap. Their
/// bytes lie one behind the other in a chunk of pinned memory.
class Gathered {
 public:
  static constexpr std::size_t kMostCopies = 64, kMostBytes = 256 << 10;

  [[nodiscard]] std::size_t copies() const noexcept { return copies_; }
  /// Pieces: copies that follow each other on the GPU are one.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] CUdeviceptr* to() noexcept { return to_.data(); }
  [[nodiscard]] CUdeviceptr* from() noexcept { return from_.data(); }
  [[nodiscard]] std::size_t* bytes() noexcept { return bytes_.data(); }

  /// @return whether one more copy can go with these.
  [[nodiscard]] bool takes(CUdeviceptr to, std::size_t bytes) const noexcept {
    if (copies_ == kMostCopies || place_of(to) + bytes > kMostBytes) return false;
    for (std::size_t i = 0; i < count_; ++i)
      if (to < to_[i] + bytes_[i] && to_[i] < to + bytes) return false;
    return true;
  }

  /// @return where in the chunk its bytes have to be.
  [[nodiscard]] std::size_t place_of(CUdeviceptr to) const noexcept {
    constexpr std::size_t kAligned = 64;
    return follows(to) ? used_ : (used_ + kAligned - 1) / kAligned * kAligned;
  }

  /// Add one that these take, whose bytes are in their place.
  void add(CUdeviceptr to, std::size_t bytes, const char* chunk) noexcept {
    const std::size_t at = place_of(to);
    if (follows(to)) {
      bytes_[count_ - 1] += bytes;
    } else {
      to_[count_] = to;
      from_[count_] = reinterpret_cast<CUdeviceptr>(chunk + at);
      bytes_[count_++] = bytes;
    }
    used_ = at + bytes;
    ++copies_;
  }

  void clear() noexcept { copies_ = count_ = used_ = 0; }

 private:
  [[nodiscard]] bool follows(CUdeviceptr to) const noexcept {
    return count_ > 0 && to == to_[count_ - 1] + bytes_[count_ - 1];
  }

  std::size_t copies_ = 0, count_ = 0, used_ = 0;
  std::array<CUdeviceptr, kMostCopies> to_{}, from_{};
  std::array<std::size_t, kMostCopies> bytes_{};
};

}  // namespace lanescope::boost
