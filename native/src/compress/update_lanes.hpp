#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "compress/host_codec.hpp"
#include "compress/update_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// As of a choice alone; and where it is an update there has to be a base, which does not overlap a
/// part of the target, and otherwise there must be none. Throws `Error`.
void require_possible(const Choice& choice, const std::byte* base, const std::byte* target,
                      std::size_t bytes);

/// Memory of a device for the differences of slabs, or for what the kernels of updates keep; one
/// piece for each lane of a channel, taken when the first update is sent that needs it.
class UpdateLanes {
 public:
  UpdateLanes(int device, std::size_t lanes, std::size_t lane_bytes)
      : device_(device), lanes_(lanes), lane_bytes_(lane_bytes) {}

  int device() const noexcept { return device_; }
  std::size_t lane_bytes() const noexcept { return lane_bytes_; }

  /// Loads the kernels of updates; and, where kernels need memory, whether there is, asked for
  /// once. Throws `Error` where something else fails.
  bool are_ready(bool need_memory);

  /// Where the differences of a lane lie, until its stream takes the next ones; null where nobody
  /// needed memory yet.
  std::byte* room(std::size_t lane) const {
    return rooms_.empty() ? nullptr : static_cast<std::byte*>(rooms_[lane].data());
  }

  /// Puts what lies there onto a base, unless a check says otherwise. Throws `Error`.
  void put(std::size_t lane, const Choice& choice, const std::byte* base, std::byte* out,
           std::size_t bytes, const Fault* of_slab, const BaseCheck& check,
           cudaStream_t stream) const;

 private:
  int device_;
  std::size_t lanes_, lane_bytes_;
  std::vector<DeviceMemory> rooms_;
  bool loaded_ = false;
  bool no_memory_ = false;
};

/// How values and their base become differences.
Differing differing_of(const Choice& choice);

/// Whether the kernels of an update keep blocks meanwhile, for which a device has to have
/// `bytes_kept_on` bytes.
bool keeps_blocks(const Choice& choice);

/// Puts the sum of a base's checksum to memory of the device, in the order of a stream. Throws
/// `Error`.
void sum_base(const std::byte* base, std::size_t bytes, unsigned long long* sum,
              cudaStream_t stream);

}  // namespace lanescope::compress
