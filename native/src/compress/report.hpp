#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compress/device_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Where kernels leave what they found in each part of a transfer, and its way to the host.
class Report {
 public:
  /// For so many parts. Throws `Error`.
  Report(int encoder, int decoder, std::size_t parts);

  std::size_t parts() const noexcept { return parts_; }
  unsigned long long* used(std::size_t part) const noexcept;  ///< Of the encoding device.
  Fault* fault(std::size_t part) const noexcept;              ///< Of the decoding device.
  unsigned long long* held_sum() const noexcept;  ///< Of a base that the decoding device holds.

  /// Sets them to zero; the stream's device is current.
  void clear_used(std::size_t parts, cudaStream_t stream) const;
  void clear_faults(std::size_t parts, cudaStream_t stream) const;

  /// Brings them to the host.
  void bring_used(std::size_t parts, cudaStream_t stream) const;
  void bring_faults(std::size_t parts, cudaStream_t stream) const;

  /// What was brought.
  std::span<const unsigned long long> brought_used() const noexcept;
  std::span<const Fault> brought_faults() const noexcept;

 private:
  std::size_t parts_;
  DeviceMemory used_;
  DeviceMemory faults_;
  DeviceMemory held_sum_;
  DriverMemory host_;
};

/// Keeps reports that nobody uses.
class ReportPool {
 public:
  ReportPool(int encoder, int decoder) : encoder_(encoder), decoder_(decoder) {}

  /// Null where a device has no memory for it. Throws `Error`.
  std::unique_ptr<Report> lend(std::size_t parts);
  void take_back(std::unique_ptr<Report> report);

 private:
  int encoder_, decoder_;
  std::vector<std::unique_ptr<Report>> kept_;
};

}  // namespace lanescope::compress
