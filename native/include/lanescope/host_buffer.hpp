#pragma once

#include <cstddef>

#include "lanescope/topology.hpp"

namespace lanescope {

/// Size of the pages that memory lies on.
enum class Pages {
  any,    ///< Transparent huge pages are asked for, and what the kernel gives is taken.
  small,  ///< The smallest for certain.
};

/// Pageable memory on one NUMA node; move-only owner.
///
/// Huge pages are asked for unless told otherwise, since page walks would be part of
/// every bandwidth. Pages appear at the first touch, which is the caller's.
class HostBuffer {
 public:
  /// Reserves `bytes` bytes, aligned to a page. Throws `Error`.
  HostBuffer(const Topology& topology, std::size_t bytes, int node, Pages pages = Pages::any);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&&) = delete;

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// How much of it lies on huge pages now, by the kernel's account (smaps).
  std::size_t huge_bytes() const;

  /// Throws `Error` unless all of it lies on huge pages; it must have been touched.
  void require_huge() const;

  /// Writes a zero to every page with as many threads as there are CPUs at hand.
  void touch() const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lanescope
