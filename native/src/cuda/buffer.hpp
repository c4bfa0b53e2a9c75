#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/cuda_handles.hpp"
#include "cuda/gate.hpp"
#include "host/host_buffer.hpp"
#include "host/topology.hpp"
#include "memory.hpp"

namespace lanescope {

/// Memory at a place, of any kind.
class Buffer {
 public:
  /// Allocates, and puts host memory on its node. Throws `Error`.
  Buffer(const Topology& topology, PlaceSpec place, std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  PlaceSpec place() const noexcept { return place_; }
  /// Whether a host thread fills and checks it, and not a GPU: kernels cannot reach
  /// pageable memory and would move the pages of managed memory.
  bool is_filled_by_host() const noexcept {
    return place_.memory == Memory::pageable || place_.memory == Memory::small_pages ||
           place_.memory == Memory::managed;
  }

 private:
  PlaceSpec place_;
  std::size_t bytes_;
  void* data_ = nullptr;
  std::optional<HostBuffer> host_;
  std::optional<DeviceMemory> device_;
  std::optional<DriverMemory> driver_;
};

/// Lends memory and keeps what is given back: pinning costs far more than a measurement,
/// and so does memory of a device that all its peers are shown.
class BufferPool {
 public:
  explicit BufferPool(std::shared_ptr<const Topology> topology) : topology_(std::move(topology)) {}

  /// A buffer of at least `bytes` bytes that nobody else holds. Throws `Error`.
  std::shared_ptr<Buffer> lend(PlaceSpec place, std::size_t bytes);

  /// `kSmallBytes` bytes of a device that nobody else holds, for what kernels leave behind.
  /// Throws `Error`.
  std::shared_ptr<DeviceMemory> lend_small(int device);

  /// A gate that nobody else holds; see `Gate`. Throws `Error`.
  std::shared_ptr<Gate> lend_gate(int device);

  /// Gives back to the system the buffers that nobody holds.
  void drop_free();

  static constexpr std::size_t kSmallBytes = 16 << 10;

 private:
  std::shared_ptr<const Topology> topology_;
  std::map<PlaceSpec, std::vector<std::shared_ptr<Buffer>>> buffers_;
  std::map<int, std::vector<std::shared_ptr<DeviceMemory>>> small_;
  std::vector<std::shared_ptr<Gate>> gates_;
};

}  // namespace lanescope
