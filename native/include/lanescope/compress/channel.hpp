#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "lanescope/compress/host_codec.hpp"
#include "lanescope/compress/ticket.hpp"

namespace lanescope::compress {

struct ChannelOptions {
  std::size_t slab_bytes = 16 << 20;  ///< Of the array, a multiple of `kBlockBytes`.
  int slots = 12;                     ///< Slabs that the receiving device has room for.
  int sms = 0;                        ///< On each side, all lanes together; 0: all.
  int lanes = 6;                      ///< Slabs that are encoded, or decoded, at a time.
  double patience_s = 30;  ///< How long the end of a channel waits for what is under way.
};

/// What is usual between a device and the host, whose link a few SMs fill; the defaults are those
/// between devices. Both by measurement on H200s.
inline constexpr ChannelOptions kToHost{8 << 20, 4, 16, 1};

/// Throws `Error` where one is out of range.
void require_possible(const ChannelOptions& options);

/// How many SMs of a device may be used: all that it has where the options say 0. Throws `Error`.
int sms_of(int device, const ChannelOptions& options);

/// Sends arrays from one GPU to another of this process, or to itself. They are encoded straight
/// into the other's memory, slab by slab, while the slabs before are decoded there.
///
///   sender    | wait free | encode slab 0 | encode slab 1 | ...
///   receiver                 wait full | decode slab 0 | decode slab 1 | ...
///
/// The host waits for nothing: entries tell the receiver's kernels what came. A send is ordered
/// behind what is on the caller's stream of each device, and what comes on them later behind the
/// send. May be used by several threads.
class DeviceChannel {
 public:
  /// Throws `Error` if there is no such device, or they do not reach each other's memory.
  DeviceChannel(int from, int to, const ChannelOptions& options);

  /// Waits for what is under way, `patience_s` at most; what has not ended then keeps its memory.
  ~DeviceChannel();
  DeviceChannel(const DeviceChannel&) = delete;
  DeviceChannel& operator=(const DeviceChannel&) = delete;

  /// Sends `bytes` bytes; without a choice as they are, and also where the memory for slots is not
  /// there or an array is not aligned to 16 bytes, which the ticket tells. The streams are of the
  /// two devices. Throws `Error`.
  std::shared_ptr<Ticket> send(const std::byte* source, std::byte* target, std::size_t bytes,
                               const std::optional<Choice>& choice, cudaStream_t source_stream,
                               cudaStream_t target_stream);

  /// For tests: changes the entry of a block of the next array that is sent compressed, before it
  /// is decoded.
  void damage_next(std::size_t block);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lanescope::compress
