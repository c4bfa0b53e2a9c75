#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// An array of a workload: memory of the host, and as much of a device.
class TaskArray {
 public:
  /// Pageable memory is touched by the calling thread. Throws `Error`.
  TaskArray(int device, std::size_t bytes, bool pageable);

  std::size_t bytes() const noexcept { return bytes_; }
  void* host() const noexcept { return pinned_ ? pinned_->data() : pageable_.get(); }
  void* device() const noexcept { return device_.data(); }

 private:
  std::size_t bytes_;
  std::unique_ptr<DriverMemory> pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  DeviceMemory device_;
};

/// Streams of a device, each with an event for its end. They are made as they are needed and kept,
/// as making 256 takes longer than much of what they are made for. Of one graph at a time.
class TaskStreams {
 public:
  explicit TaskStreams(int device) : device_(device) {}

  /// Makes streams until there are so many. Throws `Error`.
  void require(std::size_t count);
  const Stream& at(std::size_t i) const { return streams_[i]; }
  const Event& end_of(std::size_t i) const { return ends_[i]; }

 private:
  int device_;
  std::vector<Stream> streams_;
  std::vector<Event> ends_;
};

/// What a workload takes to a device, and what it takes back.
struct TaskMemory {
  /// Arrays of so many bytes in each direction; allocated by a thread on `cpus`. Throws `Error`.
  TaskMemory(const Topology& topology, int device, const std::vector<std::size_t>& in_bytes,
             const std::vector<std::size_t>& out_bytes, bool pageable,
             const std::vector<int>& cpus);
  TaskMemory(const TaskMemory&) = delete;
  TaskMemory& operator=(const TaskMemory&) = delete;

  int device;
  bool pageable;
  std::vector<TaskArray> in, out;
  std::shared_ptr<TaskStreams> streams;  ///< Of the graphs on this memory.
};

}  // namespace lanescope
