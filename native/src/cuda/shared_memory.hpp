#pragma once

#include <cstddef>
#include <string>

namespace lanescope {

/// How a process lets others use memory of a device.
enum class Sharing {
  fabric,      ///< A fabric handle: 64 bytes that any process of the same NVLink domain can use.
  descriptor,  ///< A POSIX file descriptor, which another process of this node has to be sent.
  ipc,         ///< CUDA IPC: 64 bytes that another process of this node can use.
};

/// Memory of a device that other processes can use; owner. It has to outlive their use of it.
class SharedMemory {
 public:
  /// Allocates at least `bytes` bytes and exports them. Throws `Error`, also where this machine
  /// or its driver cannot share memory so.
  SharedMemory(int device, std::size_t bytes, Sharing sharing);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// What another process needs to use it; empty for a descriptor.
  const std::string& handle() const noexcept { return handle_; }
  /// The file descriptor, which stays this object's; -1 where there is none.
  int descriptor() const noexcept { return descriptor_; }

 private:
  int device_;
  std::size_t bytes_;
  Sharing sharing_;
  void* data_ = nullptr;
  unsigned long long allocation_ = 0;
  std::string handle_;
  int descriptor_ = -1;
};

/// Another process' memory, for the use of a device of this process; owner of its address.
class AttachedMemory {
 public:
  /// `bytes` are those that `SharedMemory::bytes` has told. Throws `Error`.
  AttachedMemory(int device, std::size_t bytes, Sharing sharing, const std::string& handle,
                 int descriptor);
  ~AttachedMemory();
  AttachedMemory(const AttachedMemory&) = delete;
  AttachedMemory& operator=(const AttachedMemory&) = delete;

  void* data() const noexcept { return data_; }

 private:
  int device_;
  std::size_t bytes_;
  Sharing sharing_;
  void* data_ = nullptr;
  unsigned long long allocation_ = 0;
};

}  // namespace lanescope
