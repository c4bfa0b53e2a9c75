#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "compress/host_codec.hpp"
#include "compress/room.hpp"
#include "compress/ticket.hpp"

namespace lanescope::compress {

struct ChannelOptions {
  std::size_t slab_bytes = 128 << 20;  ///< Of the array, a multiple of `kBlockBytes`: what one
                                       ///< kernel codes.
  int slots = 2;                       ///< Slabs that the receiving side has room for.
  int sms = 0;             ///< Of each device at most; 0: as many as fill the link to encode, and
                           ///< to decode what comes from a peer all.
  double patience_s = 30;  ///< How long the end of a channel waits for what is under way, and, if
                           ///< that is longer than 30 s, the receiver for a block.
};

/// What is usual between a device and the host; the defaults are those
/// between devices. Both by measurement on H200s.
inline constexpr ChannelOptions kToHost{16 << 20, 4};

/// What is usual between devices by way of the host.
inline constexpr ChannelOptions kOverHost{32 << 20, 4};

/// SMs that code as fast as a link carries what is left, NVLink 4 or PCIe 5.0, by measurement. More
/// would have more blocks on the way at once, which end together. All that there are, up to so
/// many, for values of 64 bits between devices, which take longest, and for updates.
int sms_that_fill(Via link, const Choice& choice);

/// The most that `sms_that_fill` says; a GPU that has fewer uses all. And what is usual.
inline constexpr int kUsualSmsOfPeer = 80, kMostSmsOfPeer = 256;
inline constexpr int kUsualSmsOfHost = 32, kMostSmsOfHost = 48;

/// How much is coded before all parts of the pipeline are at work, at most.
inline constexpr std::size_t kPeerFill = std::size_t{kUsualSmsOfPeer} * kMostGroups * kBlockBytes;
inline constexpr std::size_t kOverHostFill = 8 << 20, kToHostFill = 8 << 20;

/// Throws `Error` where one is out of range.
void require_possible(const ChannelOptions& options);

/// How many SMs of a device may be used: all that it has where the options say 0. Throws `Error`.
int sms_of(int device, const ChannelOptions& options);

/// Sends arrays from one GPU to another of this process, or to itself. One kernel encodes a slab
/// straight into the other's memory, block by block, and marks each block there that is stored; one
/// kernel of the receiver follows it.
///
///   sender    | wait free | encode slab 0      | encode slab 1 ...
///   receiver                | decode slab 0, block by block as they come | decode slab 1 ...
///
/// The receiver's kernel is not begun before the sender's has stored a block, and the sender's
/// waits for nothing: so whatever else uses the SMs, neither keeps the other from its end. The host
/// waits for nothing. Where the sender fails, the receiver's
/// stream is released at the next look at a ticket, if not by the driver before. A send is ordered
/// behind what is on the caller's stream of each device, and what comes on them later behind the
/// send. May be used by several threads.
class DeviceChannel {
 public:
  /// Throws `Error` if there is no such device, or, via peer, they do not reach each other's
  /// memory.
  DeviceChannel(int from, int to, const ChannelOptions& options, Via via = Via::peer);

  /// Waits for what is under way, `patience_s` at most; what has not ended then keeps its memory.
  ~DeviceChannel();
  DeviceChannel(const DeviceChannel&) = delete;
  DeviceChannel& operator=(const DeviceChannel&) = delete;

  /// Sends `bytes` bytes; without a choice as they are, and also where the memory for slots is not
  /// there or an array is not aligned to 16 bytes, which the ticket tells. The streams are of the
  /// two devices. Throws `Error`.
  ///
  /// An update, by its choice, has `base` in the source's memory, of which `target` holds the same
  /// bytes: the differences are put onto them. Where they are others they stay as they are, which
  /// the ticket tells. That takes two slabs more on each device.
  std::shared_ptr<Ticket> send(const std::byte* source, std::byte* target, std::size_t bytes,
                               const std::optional<Choice>& choice, cudaStream_t source_stream,
                               cudaStream_t target_stream, const std::byte* base = nullptr);

  /// Loads the kernels of a choice beforehand, so that the first array is no slower than others.
  /// Throws `Error`.
  void load(const Choice& choice);

  /// For tests: changes the entry of a block of the next array that is sent compressed, before it
  /// is decoded.
  void damage_next(std::size_t block);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lanescope::compress
