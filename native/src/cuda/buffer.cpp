#include "cuda/buffer.hpp"

#include <algorithm>
#include <string>

namespace lanescope {

namespace {

DriverMemory allocate_by_driver(const Topology& topology, PlaceSpec place, std::size_t bytes) {
  // The driver takes pages where the calling thread's policy says.
  const ScopedMemoryPolicy policy(topology, place.index);
  if (place.memory == Memory::managed)
    return DriverMemory::managed(bytes, topology.node_count() > 1 ? place.index : -1);
  return DriverMemory::host(bytes, place.memory == Memory::write_combined);
}

/// What the driver neither allocates nor pins.
bool is_ordinary(Memory memory) {
  return memory == Memory::pageable || memory == Memory::small_pages;
}

}  // namespace

Buffer::Buffer(const Topology& topology, PlaceSpec place, std::size_t bytes)
    : place_(place), bytes_(bytes) {
  if (place.address != 0) {
    data_ = reinterpret_cast<void*>(place.address);
    return;
  }
  switch (place.memory) {
    case Memory::device:
      data_ = device_.emplace(place.index, bytes).data();
      return;
    case Memory::pool:
      throw Error("Buffer", 0, "no buffer", "memory of the driver's pool is not copied");
    case Memory::write_combined:
    case Memory::mapped:
    case Memory::managed:
      data_ = driver_.emplace(allocate_by_driver(topology, place, bytes)).data();
      if (topology.node_count() > 1) require_on_node(data_, bytes_, place.index);
      return;
    case Memory::pageable:
    case Memory::small_pages:
    case Memory::pinned:
    case Memory::huge:
      break;
  }
  const Pages pages = place.memory == Memory::small_pages ? Pages::small : Pages::any;
  data_ = host_.emplace(topology, bytes, place.index, pages).data();
  host_->touch();
  if (place.memory == Memory::huge) host_->require_huge();
  // Registering memory that is already on its node keeps it there; an allocation
  // by the driver would decide itself.
  if (!is_ordinary(place.memory))
    check(cudaHostRegister(data_, host_->bytes(), cudaHostRegisterPortable), "cudaHostRegister");
}

Buffer::~Buffer() {
  if (host_ && !is_ordinary(place_.memory)) forgive(cudaHostUnregister(data_));
}

namespace {

/// Whether only the pool holds it.
bool is_free(const std::shared_ptr<Buffer>& buffer) {
  return buffer.use_count() == 1;
}

}  // namespace

std::shared_ptr<Buffer> BufferPool::lend(PlaceSpec place, std::size_t bytes) {
  // What is there already is its owner's: nothing of it is kept.
  if (place.address != 0) return std::make_shared<Buffer>(*topology_, place, bytes);
  auto& kept = buffers_[place];
  for (const auto& buffer : kept)
    if (is_free(buffer) && buffer->bytes() >= bytes) return buffer;
  // Too small ones would only stand in the way of a larger one.
  std::erase_if(kept, is_free);
  kept.push_back(std::make_shared<Buffer>(*topology_, place, bytes));
  return kept.back();
}

void BufferPool::drop_free() {
  for (auto& [place, kept] : buffers_) std::erase_if(kept, is_free);
}

std::shared_ptr<DeviceMemory> BufferPool::lend_small(int device) {
  auto& kept = small_[device];
  for (const auto& memory : kept)
    if (memory.use_count() == 1) return memory;
  kept.push_back(std::make_shared<DeviceMemory>(device, kSmallBytes));
  return kept.back();
}

std::shared_ptr<Gate> BufferPool::lend_gate(int device) {
  for (const auto& gate : gates_)
    if (gate.use_count() == 1 && gate->is_drained()) return gate;
  gates_.push_back(std::make_shared<Gate>(device));
  return gates_.back();
}

}  // namespace lanescope
