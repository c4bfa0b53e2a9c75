#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "cuda/buffer.hpp"
#include "host/host_buffer.hpp"
#include "host/topology.hpp"
#include "memory.hpp"

namespace lanescope {

/// Memory of a NUMA node that host threads work in, of any kind that a node has.
///
/// Pageable memory and pages of a certain size take no driver: huge pages are not pinned.
class HostArray {
 public:
  /// What the driver makes or pins is lent by `pool` and pinned by `device`. Throws `Error`.
  HostArray(const Topology& topology, BufferPool& pool, PlaceSpec place, std::size_t bytes,
            int device);

  void* data() const noexcept { return data_; }

  /// Throws `Error` when the kernel says that more than a few of its pages lie on another
  /// node than asked for; it must have been touched.
  void require_on_its_node() const;

 private:
  std::optional<HostBuffer> own_;
  std::shared_ptr<Buffer> lent_;
  void* data_ = nullptr;
  std::size_t bytes_;
  std::optional<int> node_;  // on a machine of several
};

}  // namespace lanescope
