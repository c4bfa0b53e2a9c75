#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lanescope/cuda_handles.hpp"
#include "lanescope/host_buffer.hpp"
#include "lanescope/topology.hpp"

namespace lanescope {

/// Kind of memory that bytes live in.
enum class Memory { pageable, pinned, write_combined, mapped, managed, huge, device };

/// A place: `index` is a NUMA node for host memory, a device otherwise.
struct PlaceSpec {
  Memory memory;
  int index;
  auto operator<=>(const PlaceSpec&) const = default;
};

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
    return place_.memory == Memory::pageable || place_.memory == Memory::managed;
  }

 private:
  PlaceSpec place_;
  std::size_t bytes_;
  void* data_ = nullptr;
  std::optional<HostBuffer> host_;
  std::optional<DeviceMemory> device_;
  std::optional<DriverMemory> driver_;
};

/// Lends buffers and keeps those given back: pinning memory costs far more than a
/// measurement.
class BufferPool {
 public:
  explicit BufferPool(std::shared_ptr<const Topology> topology) : topology_(std::move(topology)) {}

  /// A buffer of at least `bytes` bytes that nobody else holds. Throws `Error`.
  std::shared_ptr<Buffer> lend(PlaceSpec place, std::size_t bytes);

 private:
  std::shared_ptr<const Topology> topology_;
  std::map<PlaceSpec, std::vector<std::shared_ptr<Buffer>>> buffers_;
};

}  // namespace lanescope
