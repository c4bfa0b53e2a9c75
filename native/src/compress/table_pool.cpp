#include "compress/table_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastTableBytes = 32 << 10;

}  // namespace

std::unique_ptr<TablePool::Room> TablePool::lend(std::size_t bytes) {
  auto room = free_room(bytes);
  if (!room)
    room = std::make_unique<Room>(device_, std::bit_ceil(std::max(bytes, kLeastTableBytes)));
  try {
    if (!room->device) room->device.emplace(device_, room->bytes);
  } catch (const Error& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
  }
  return room;
}

/// Null if there is none that is large enough and free.
std::unique_ptr<TablePool::Room> TablePool::free_room(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(rooms_.begin(), rooms_.end(), [&](const auto& room) {
    if (room->bytes < bytes) return false;
    const cudaError_t status = cudaEventQuery(room->free.get());
    if (status != cudaSuccess) forgive(status);
    return status == cudaSuccess;
  });
  if (found == rooms_.end()) return nullptr;
  auto room = std::move(*found);
  rooms_.erase(found);
  return room;
}

void TablePool::take_back(std::unique_ptr<Room> room, cudaStream_t stream) noexcept {
  try {
    record(room->free, stream);
    const std::lock_guard lock(mutex_);
    rooms_.push_back(std::move(room));
  } catch (...) {
    // The device failed, and may still read the room: it is lost rather than given to somebody
    // else.
    static_cast<void>(room.release());
  }
}

}  // namespace lanescope::compress
