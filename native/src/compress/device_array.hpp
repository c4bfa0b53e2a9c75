#pragma once

#include <cstddef>
#include <span>

#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Bytes that are not as they should be.
struct Difference {
  std::size_t bytes = 0;
  std::size_t first = 0;  ///< Where the first of them lies.
};

/// Values in a GPU's memory that come from the host's, repeated until they fill it, and can be
/// compared with them again; owner. Each call returns when it is done.
class DeviceArray {
 public:
  /// Throws `Error`.
  DeviceArray(int device, std::size_t bytes);

  int device() const noexcept { return memory_.device(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_.data()); }

  /// Sets every byte. Throws `Error`.
  void set(unsigned char value);

  /// Puts `values` there, one after the other until it is full. Throws `Error`.
  void fill_from(std::span<const std::byte> values);

  /// Compares every byte with `values` one after the other. Throws `Error`.
  Difference compare(std::span<const std::byte> values) const;

 private:
  void wait() const;

  std::size_t bytes_;
  DeviceMemory memory_;
  Stream stream_;
};

}  // namespace lanescope::compress
