#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <source_location>
#include <string>
#include <utility>

#include "error.hpp"

namespace lanescope {

/// The name of errors that say that no kernel was compiled for the GPU.
inline constexpr const char* kNoCode = "no code";

/// Throws `Error` named `kNoCode` about the current device.
[[noreturn]] void throw_missing_code(const char* call, cudaError_t status,
                                     std::source_location where);

/// Throws `Error` with the call's name unless `status` is success.
inline void check(cudaError_t status, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // or the next call would report it again
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
    throw_missing_code(call, status, where);
  throw Error(call, static_cast<int>(status), cudaGetErrorName(status), cudaGetErrorString(status),
              where);
}

/// Drops the failure of a call that nobody can be told of, as in a destructor. The
/// runtime forgets it too, or the check of the next launch would take it for its own.
inline void forgive(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
}

/// Makes a device current for a scope and restores the caller's afterwards.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~ScopedDevice() { forgive(cudaSetDevice(before_)); }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  int before_ = 0;
};

/// Where a stream stands among those of its device that want the same.
enum class Priority { usual, lowest, highest };

/// A stream of one device that does not wait for the default stream; owner.
class Stream {
 public:
  /// Throws `Error`.
  explicit Stream(int device, Priority priority = Priority::usual) : device_(device) {
    const ScopedDevice scope(device);
    int lowest = 0, highest = 0;  // 0 is also what is usual
    if (priority != Priority::usual)
      check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
            "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking,
                                       priority == Priority::highest ? highest : lowest),
          "cudaStreamCreate");
  }
  ~Stream() {
    if (handle_ != nullptr) forgive(cudaStreamDestroy(handle_));
  }
  Stream(Stream&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_) {}
  Stream& operator=(Stream&&) = delete;

  cudaStream_t get() const noexcept { return handle_; }
  int device() const noexcept { return device_; }

 private:
  cudaStream_t handle_ = nullptr;
  int device_;
};

/// Whether an event keeps the time; without, it is cheaper to record and to wait for.
enum class Timing { kept, none };

/// An event, which keeps the time unless told otherwise; owner. Made on the current device.
class Event {
 public:
  explicit Event(Timing timing = Timing::kept) {
    const unsigned flags = timing == Timing::kept ? cudaEventDefault : cudaEventDisableTiming;
    check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreate");
  }
  ~Event() {
    if (handle_ != nullptr) forgive(cudaEventDestroy(handle_));
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  cudaEvent_t get() const noexcept { return handle_; }

  /// Seconds from `earlier` to this event; both done, both of one device.
  double seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Memory of one device; owner.
class DeviceMemory {
 public:
  DeviceMemory(int device, std::size_t bytes) : device_(device) {
    const ScopedDevice scope(device);
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  ~DeviceMemory() {
    if (data_ != nullptr) forgive(cudaFree(data_));
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), device_(other.device_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  void* data() const noexcept { return data_; }
  int device() const noexcept { return device_; }

 private:
  void* data_ = nullptr;
  int device_;
};

/// Host memory that the driver allocates, for all devices; owner.
class DriverMemory {
 public:
  /// Pinned and mapped; `write_combined` keeps it out of the CPU's caches. Throws `Error`.
  static DriverMemory host(std::size_t bytes, bool write_combined) {
    DriverMemory memory;
    const unsigned kind = write_combined ? cudaHostAllocWriteCombined : cudaHostAllocDefault;
    check(cudaHostAlloc(&memory.data_, bytes, cudaHostAllocPortable | cudaHostAllocMapped | kind),
          "cudaHostAlloc");
    return memory;
  }

  /// Managed memory that prefers to stay on the host, on NUMA node `node` unless that
  /// is negative. Throws `Error`.
  static DriverMemory managed(std::size_t bytes, int node) {
    DriverMemory memory;
    memory.managed_ = true;
    check(cudaMallocManaged(&memory.data_, bytes), "cudaMallocManaged");
    const cudaMemLocation home{node < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeHostNuma,
                               node < 0 ? 0 : node};
    check(cudaMemAdvise(memory.data_, bytes, cudaMemAdviseSetPreferredLocation, home),
          "cudaMemAdvise");
    return memory;
  }

  ~DriverMemory() {
    if (data_ != nullptr) forgive(managed_ ? cudaFree(data_) : cudaFreeHost(data_));
  }
  DriverMemory(DriverMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), managed_(other.managed_) {}
  DriverMemory& operator=(DriverMemory&&) = delete;

  void* data() const noexcept { return data_; }

 private:
  DriverMemory() = default;

  void* data_ = nullptr;
  bool managed_ = false;
};

}  // namespace lanescope
