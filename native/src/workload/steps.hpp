#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lanescope/cuda_handles.hpp"
#include "lanescope/workload.hpp"

namespace lanescope {

/// Takes the time of steps, and copies between host and device as ordinary programs do.
class Steps {
 public:
  /// Does `work` as a step that exchanges `bytes` with the device.
  template <typename Work>
  void take(std::string name, std::size_t bytes, Work work) {
    const auto begin = now();
    work();
    report_.steps.push_back({std::move(name), begin, now(), bytes});
  }

  /// A synchronous copy. Throws `Error`.
  void copy(std::string name, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    take(std::move(name), bytes, [&] { check(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy"); });
  }

  WorkloadReport done(std::size_t wrong) {
    report_.wrong = wrong;
    return std::move(report_);
  }

 private:
  static std::uint64_t now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

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
