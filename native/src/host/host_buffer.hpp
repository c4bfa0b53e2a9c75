#pragma once

#include <cstddef>
#include <optional>

#include "host/pages.hpp"
#include "host/topology.hpp"

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
  std::size_t huge_bytes() const { return huge_page_bytes(data_, bytes_); }

  /// Throws `Error` unless all of it lies on huge pages; it must have been touched.
  void require_huge() const { require_huge_pages(data_, bytes_); }

  /// Throws `Error` when the kernel says that more than a few of its pages lie on another
  /// node than asked for; it must have been touched.
  void require_on_its_node() const;

  /// Writes a zero to every page with as many threads as there are CPUs at hand. Throws
  /// `Error` when the pages are not where they should be.
  void touch() const;

 private:
  /// Where memory may not be bound it goes to the node of the CPU that touches it first,
  /// unless that node is full.
  void touch_from(const Topology& topology, int node) const;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::optional<int> node_;  // where its pages are bound to, on a machine of several nodes
};

}  // namespace lanescope
