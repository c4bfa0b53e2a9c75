#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compress/stream_order.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Brings tables for kernels into a device's memory, in the order of a stream, by way of pinned
/// memory: nothing waits on the host. Where the device has no memory left kernels read them on the
/// host, and wait for each entry while the link is full. May be used by several threads.
class TablePool {
 public:
  explicit TablePool(int device) : device_(device) {}

  /// Calls `use` with the table where the device reaches it, which is valid for what that puts on
  /// the stream. The stream's device is current. Throws `Error`.
  template <typename Use>
  void with(std::span<const std::byte> table, cudaStream_t stream, Use use) {
    if (table.empty()) return use(static_cast<const std::byte*>(nullptr));
    auto room = lend(table.size());
    try {
      std::memcpy(room->host.data(), table.data(), table.size());
      if (room->device)
        check(cudaMemcpyAsync(room->device->data(), room->host.data(), table.size(),
                              cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
      use(static_cast<const std::byte*>(room->device ? room->device->data() : room->host.data()));
    } catch (...) {
      take_back(std::move(room), stream);
      throw;
    }
    take_back(std::move(room), stream);
  }

 private:
  struct Room {
    Room(int device, std::size_t size)
        : host(DriverMemory::host(size, false)),
          free(event_on(device, Timing::none)),
          bytes(size) {}

    DriverMemory host;
    std::optional<DeviceMemory> device;  ///< None while there is no memory.
    Event free;  ///< When nothing on the stream that used it last needs it any more.
    std::size_t bytes;
  };

  std::unique_ptr<Room> lend(std::size_t bytes);
  std::unique_ptr<Room> free_room(std::size_t bytes);
  void take_back(std::unique_ptr<Room> room, cudaStream_t stream) noexcept;

  int device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Room>> rooms_;
};

}  // namespace lanescope::compress
