#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cuda/cuda_handles.hpp"
#include "workload/workload.hpp"

namespace lanescope {

/// Bytes that a step exchanges with the device, and by how many copies.
struct Moved {
  std::size_t h2d = 0, d2h = 0, copies = 0;
};

/// Takes the time of steps, and copies between host and device as ordinary programs do.
class Steps {
 public:
  /// Nanoseconds of CLOCK_REALTIME since 1970.
  static std::uint64_t now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

  /// Does `work` as a step.
  template <typename Work>
  void take(std::string name, Moved moved, Work work) {
    const auto begin = now();
    work();
    add(std::move(name), begin, now(), moved);
  }

  /// A step that is over.
  void add(std::string name, std::uint64_t begin_ns, std::uint64_t end_ns, Moved moved = {}) {
    report_.steps.push_back(
        {std::move(name), begin_ns, end_ns, moved.h2d, moved.d2h, moved.copies});
  }

  /// A synchronous copy. Throws `Error`.
  void copy(std::string name, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const bool down = kind == cudaMemcpyHostToDevice;
    take(std::move(name), {down ? bytes : 0, down ? 0 : bytes, 1},
         [&] { check(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy"); });
  }

  WorkloadReport done(std::size_t wrong) {
    report_.wrong = wrong;
    return std::move(report_);
  }

 private:
  WorkloadReport report_{{}, 0};
};

/// Floats in host memory, pageable or pinned.
class HostFloats {
 public:
  HostFloats(std::size_t count, bool pinned) {
    if (pinned)
      driver_.emplace(DriverMemory::host(count * sizeof(float), false));
    else
      own_ = std::make_unique_for_overwrite<float[]>(count);
  }

  float* data() const noexcept {
    return driver_ ? static_cast<float*>(driver_->data()) : own_.get();
  }

 private:
  std::unique_ptr<float[]> own_;
  std::optional<DriverMemory> driver_;
};

}  // namespace lanescope
