#include "cuda/host_array.hpp"

#include "cuda/lend_to.hpp"
#include "host/pages.hpp"

namespace lanescope {

HostArray::HostArray(const Topology& topology, BufferPool& pool, PlaceSpec place, std::size_t bytes,
                     int device)
    : bytes_(bytes) {
  switch (place.memory) {
    case Memory::pageable:
    case Memory::small_pages:
      lent_ = pool.lend(place, bytes);  // which takes no GPU
      break;
    case Memory::huge:
      own_.emplace(topology, bytes, place.index);
      own_->touch();
      own_->require_huge();
      break;
    case Memory::pinned:
    case Memory::write_combined:
    case Memory::mapped:
    case Memory::managed:
      lent_ = lend_to(device, pool, place, bytes);
      break;
    case Memory::device:
    case Memory::pool:
      throw Error("HostArray", 0, "bad places", "host threads do not work in memory of a device");
  }
  data_ = own_ ? own_->data() : lent_->data();
  if (topology.node_count() > 1) node_ = place.index;
}

void HostArray::require_on_its_node() const {
  if (node_) require_on_node(data_, bytes_, *node_);
}

}  // namespace lanescope
