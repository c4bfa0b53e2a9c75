#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "compress/device_kernels.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Which way arrays go from one GPU to another.
enum class Via {
  peer,  ///< The sender writes to the receiver's memory.
  host,  ///< By pinned memory of the host, which both reach.
};

/// How long a decoder waits for a block: 30 s at least, as others may hold an encoder up.
std::uint64_t arrival_patience_ns(double patience_s);

/// Room for a slab on its way: a word and an entry for each block, and payloads; in the receiver's
/// memory, or in the host's. Which slab has it, its mark tells.
class Room {
 public:
  /// Throws `Error`.
  Room(int from, int to, std::size_t slab_bytes, Via via);

  unsigned int* stored() const { return reinterpret_cast<unsigned int*>(data()); }
  unsigned int* given_up() const { return stored() + blocks_; }
  /// Of an update: the sum of each block of the sender's base.
  unsigned long long* base_sums() const {
    return reinterpret_cast<unsigned long long*>(data() + base_sums_at_);
  }
  Entry* entries() const { return reinterpret_cast<Entry*>(data() + entries_at_); }
  std::byte* payloads() const { return data() + payloads_at_; }
  unsigned int* taken() const { return static_cast<unsigned int*>(taken_.data()); }

  /// How the encoder of the slab that has it now, and its decoder, know of each other.
  Progress progress() const { return {stored(), mark_, taken()}; }
  Arrival arrival(double patience_s) const;  ///< 30 s of patience at least.
  unsigned int mark() const noexcept { return mark_; }

  /// Gives it to the next slab.
  void next() noexcept { ++mark_; }

  Event free;     ///< Of the receiver: when it is read.
  Event written;  ///< Of the sender: when nothing of the slab is written any more.

 private:
  std::byte* data() const;

  std::size_t blocks_, base_sums_at_, entries_at_, payloads_at_;
  std::variant<DeviceMemory, DriverMemory> memory_;
  DeviceMemory taken_;  // of the sender
  unsigned int mark_ = 0;
};

}  // namespace lanescope::compress
