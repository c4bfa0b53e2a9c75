#pragma once

#include <cstddef>
#include <map>

namespace lanescope {

/// On which NUMA nodes the pages of memory lie, by the kernel's account.
struct NodePages {
  std::map<int, std::size_t> by_node;  ///< Pages on each node.
  std::size_t unknown = 0;  ///< Pages that the kernel tells nothing of: not touched, a driver's.

  /// Share of the pages with a known node that lie elsewhere; 0 when none is known.
  double share_off(int node) const;
};

/// Asks the kernel for a sample of pages, spread evenly over [data, data + bytes). Where it may
/// not be asked all are unknown.
NodePages node_pages(const void* data, std::size_t bytes);

/// Throws `Error` when more than 1 % of the pages of [data, data + bytes) lie on other nodes
/// than `node`. What is not known is no error.
void require_on_node(const void* data, std::size_t bytes, int node);

/// How much of [data, data + bytes) lies on huge pages now, by the kernel's account (smaps).
std::size_t huge_page_bytes(const void* data, std::size_t bytes);

/// Throws `Error` unless all of it does.
void require_huge_pages(const void* data, std::size_t bytes);

}  // namespace lanescope
