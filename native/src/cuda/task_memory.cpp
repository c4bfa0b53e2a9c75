#include "cuda/task_memory.hpp"

#include <cerrno>
#include <cstring>
#include <new>

namespace lanescope {

namespace {

std::vector<TaskArray> arrays(int device, const std::vector<std::size_t>& bytes, bool pageable) {
  std::vector<TaskArray> all;
  for (const std::size_t one : bytes) all.emplace_back(device, one, pageable);
  return all;
}

/// Not touched yet. Throws `Error` where there is no room.
std::unique_ptr<std::byte[]> pageable_memory(std::size_t bytes) {
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
  if (memory != nullptr) return memory;
  errno = ENOMEM;
  throw_errno("new");
}

}  // namespace

TaskArray::TaskArray(int device, std::size_t bytes, bool pageable)
    : bytes_(bytes), device_(device, bytes) {
  if (pageable)
    pageable_ = pageable_memory(bytes);
  else
    pinned_ = std::make_unique<DriverMemory>(DriverMemory::host(bytes, false));
  std::memset(host(), 0, bytes);
}

void TaskStreams::require(std::size_t count) {
  const ScopedDevice scope(device_);
  while (ends_.size() < count) {
    if (streams_.size() == ends_.size()) streams_.emplace_back(device_);
    ends_.emplace_back(Timing::none);
  }
}

TaskMemory::TaskMemory(const Topology& topology, int gpu, const std::vector<std::size_t>& in_bytes,
                       const std::vector<std::size_t>& out_bytes, bool not_pinned,
                       const std::vector<int>& cpus)
    : device(gpu), pageable(not_pinned), streams(std::make_shared<TaskStreams>(gpu)) {
  const ScopedBinding binding(topology, cpus);
  const ScopedDevice scope(device);
  in = arrays(device, in_bytes, pageable);
  out = arrays(device, out_bytes, pageable);
}

}  // namespace lanescope
