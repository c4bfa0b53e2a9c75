#include <algorithm>

#include "lanescope/copy_set.hpp"

namespace lanescope {

Buffer::Buffer(const Topology& topology, PlaceSpec place, std::size_t bytes)
    : place_(place), bytes_(bytes) {
  if (place.memory == Memory::device) {
    device_.emplace(place.index, bytes);
    return;
  }
  host_.emplace(topology, bytes, place.index);
  host_->touch();
  // Registering memory that is already on its node keeps it there; an allocation
  // by the driver would decide itself.
  if (place.memory == Memory::pinned)
    check(cudaHostRegister(host_->data(), host_->bytes(), cudaHostRegisterPortable),
          "cudaHostRegister");
}

Buffer::~Buffer() {
  if (place_.memory == Memory::pinned) forgive(cudaHostUnregister(host_->data()));
}

std::shared_ptr<Buffer> BufferPool::lend(PlaceSpec place, std::size_t bytes) {
  auto& kept = buffers_[place];
  // A buffer that only the pool holds is free.
  auto is_free = [](const auto& buffer) { return buffer.use_count() == 1; };
  for (const auto& buffer : kept)
    if (is_free(buffer) && buffer->bytes() >= bytes) return buffer;
  // Too small ones would only stand in the way of a larger one.
  std::erase_if(kept, is_free);
  kept.push_back(std::make_shared<Buffer>(*topology_, place, bytes));
  return kept.back();
}

}  // namespace lanescope
