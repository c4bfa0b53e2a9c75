#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "lanescope/buffer.hpp"
#include "lanescope/host_buffer.hpp"
#include "lanescope/memory.hpp"
#include "lanescope/topology.hpp"

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

 private:
  std::optional<HostBuffer> own_;
  std::shared_ptr<Buffer> lent_;
  void* data_ = nullptr;
};

}  // namespace lanescope
