#pragma once

#include <cstddef>

#include "lanescope/topology.hpp"

namespace lanescope {

/// Pageable memory on one NUMA node; move-only owner.
///
/// Transparent huge pages are asked for, since page walks would otherwise be part
/// of every bandwidth. Pages appear at the first touch, which is the caller's.
class HostBuffer {
 public:
  /// Reserves `bytes` bytes, aligned to a page. Throws `Error`.
  HostBuffer(const Topology& topology, std::size_t bytes, int node);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&&) = delete;

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// How much of it lies on huge pages now, by the kernel's account (smaps).
  std::size_t huge_bytes() const;

  /// Writes a zero to every page with as many threads as there are CPUs at hand.
  void touch() const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lanescope
