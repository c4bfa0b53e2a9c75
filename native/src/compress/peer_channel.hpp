#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "compress/channel.hpp"
#include "compress/ticket.hpp"

namespace lanescope::compress {

// `DeviceChannel` between two processes of a node, with a GPU each or one together. Each process
// has one half. Both are made with the same options, are given what the other one's `handle`
// returns, and then carry the same arrays in the same order, which whoever uses them agrees on by
// other means. The host waits for nothing; streams wait for each other by words in memory that the
// processes share:
//
//   sender    | wait: slot freed | encode into the slot, mark each block   | ...
//   receiver  | wait: first block | decode, block by block as they come | free the slot | ...
//
// Where a process ends or is late, whoever notices calls `give_up` in the other one, so that its
// streams come to their end.

/// An array that crosses.
struct Crossing {
  std::uint64_t number;  ///< Of no other array; the same on both sides.
  std::size_t bytes;
  std::optional<Choice> choice;  ///< None: as it is.
};

/// The half of the process that sends.
class PeerSender {
 public:
  /// Throws `Error`.
  PeerSender(int device, const ChannelOptions& options);

  /// Waits for what is under way, `patience_s` at most; what has not ended then keeps its memory.
  ~PeerSender();
  PeerSender(const PeerSender&) = delete;
  PeerSender& operator=(const PeerSender&) = delete;

  /// What the receiver attaches.
  std::string handle() const;

  /// Makes the receiver's slots usable. Throws `Error`, also where this GPU does not reach them.
  void attach(const std::string& receiver);

  /// Why an array cannot be compressed; empty if it can.
  std::string hindrance(const std::byte* source) const;

  /// Sends an array, behind what is on the stream and before what comes on it later. The ticket
  /// ends when the receiver has it. Throws `Error`; the channel is of no use then.
  std::shared_ptr<Ticket> send(const std::byte* source, const Crossing& crossing,
                               cudaStream_t stream);

  /// Loads the kernels of a choice beforehand. Throws `Error`.
  void load(const Choice& choice);

  /// Waits for what is under way, `patience_s` at most, and lets go of the receiver's memory, which
  /// may be given back when this has returned.
  void detach() noexcept;

  /// Lets all streams go on that wait for the receiver; nothing can be sent any more.
  void give_up() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The half of the process that receives.
class PeerReceiver {
 public:
  /// Throws `Error`, also where there is no memory for the slots.
  PeerReceiver(int device, const ChannelOptions& options);

  /// Waits for what is under way, `patience_s` at most; what has not ended then keeps its memory.
  ~PeerReceiver();
  PeerReceiver(const PeerReceiver&) = delete;
  PeerReceiver& operator=(const PeerReceiver&) = delete;

  /// What the sender attaches.
  std::string handle() const;

  /// Makes the sender's words usable. Throws `Error`.
  void attach(const std::string& sender);

  /// Receives an array, aligned to 16 bytes if it comes compressed, behind what is on the stream
  /// and before what comes on it later. Throws `Error`; the channel is of no use then.
  std::shared_ptr<Ticket> receive(std::byte* target, const Crossing& crossing, cudaStream_t stream);

  /// Loads the kernels of a choice beforehand. Throws `Error`.
  void load(const Choice& choice);

  /// Waits for what is under way, `patience_s` at most, and lets go of the sender's memory, which
  /// may be given back when this has returned.
  void detach() noexcept;

  /// Lets all streams go on that wait for the sender; what has not come is told as damage.
  void give_up() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lanescope::compress
