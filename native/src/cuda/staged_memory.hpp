#pragma once

#include <cstddef>

#include "cuda/cuda_handles.hpp"

namespace lanescope {

/// Two arrays of a device and as much host memory, pinned, that another process works with, too:
/// one array leaves through its first half, what the other process puts into its second half
/// comes into the other.
class StagedMemory {
 public:
  /// `descriptor` is a file of `2 * bytes` bytes, which stays the caller's. What leaves is filled
  /// with a pattern. Throws `Error`.
  StagedMemory(int device, int descriptor, std::size_t bytes);

  /// Copies a part of what leaves to the host, and waits. Throws `Error`.
  void to_host(std::size_t begin, std::size_t bytes) const;
  /// Copies a part of what has come to the device, and waits. Throws `Error`.
  void to_device(std::size_t begin, std::size_t bytes) const;

  /// How many of the first `bytes` bytes that have come are not those of the pattern, which is
  /// the same everywhere; forgets them afterwards. Throws `Error`.
  std::size_t count_mismatches(std::size_t bytes) const;

 private:
  /// Pages that two processes share, pinned; owner.
  class Pages {
   public:
    Pages(int descriptor, std::size_t bytes);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

   private:
    void* data_;
    std::size_t bytes_;
  };

  void copy(void* to, const void* from, std::size_t bytes) const;

  int device_;
  std::size_t bytes_;
  Stream stream_;
  DeviceMemory leaving_, coming_;
  Pages pages_;
};

}  // namespace lanescope
