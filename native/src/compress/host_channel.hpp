#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compress/channel.hpp"
#include "compress/pinned_arena.hpp"
#include "compress/slabs.hpp"

namespace lanescope::compress {

/// How compressed arrays come back.
enum class RestoreBy {
  mapped,  ///< Kernels read the host's memory themselves.
  staged,  ///< The copy engine brings slabs into the device's memory, and kernels read them there.
};

struct HostChannelOptions {
  ChannelOptions channel = kToHost;     ///< Slabs and slots are those of staged restores.
  std::size_t piece_bytes = 256 << 20;  ///< By which the pinned memory grows.
  RestoreBy restore_by = RestoreBy::staged;
};

/// An array that lies in pinned memory of the host, as it is or compressed: entries for each block,
/// and payloads one behind another. Stays when its channel goes.
class Parcel {
 public:
  /// For channels. Takes memory for the array as it is, and for its entries: what is left of it
  /// goes back when the size is known. Its blocks are bound to `number`. Throws `Error`.
  Parcel(std::shared_ptr<PinnedArena> arena, std::size_t bytes, std::size_t slab_bytes,
         const std::optional<Choice>& choice, std::uint64_t number);
  ~Parcel();
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  const std::optional<Choice>& choice() const noexcept { return choice_; }

  /// Bytes of entries and payloads. Waits for the offload as `Ticket::wait` does.
  std::size_t stored_bytes();

  /// Pinned memory that it holds at the moment.
  std::size_t held_bytes() const;

  /// For tests: changes the entry of a block, or lets two blocks change places.
  void damage(std::size_t block);
  void exchange(std::size_t one, std::size_t other);

 private:
  friend class HostChannel;

  std::size_t blocks() const noexcept { return choice_ ? blocks_of(bytes_) : 0; }
  std::size_t front_bytes() const noexcept;
  static std::size_t front_bytes(std::size_t blocks) noexcept;  ///< Of entries, before payloads.
  std::byte* data() const { return arena_->at(range_); }
  Entry* entries() const { return reinterpret_cast<Entry*>(data()); }
  Entry* rebased() const { return entries() + blocks(); }
  std::byte* payloads() const { return data() + front_bytes(); }

  /// When the payloads' bytes are known.
  void shrink(std::size_t used);

  /// Where the payloads of each slab lie, with entries rebased to that. Made once.
  const std::vector<Piece>& pieces();

  std::shared_ptr<PinnedArena> arena_;  // lives as long as the last parcel
  std::size_t bytes_;
  std::size_t slab_bytes_;
  std::optional<Choice> choice_;
  std::uint64_t number_;  // of the offload
  mutable std::mutex mutex_;
  Range range_{};
  std::size_t room_;  // for payloads
  std::vector<Piece> pieces_;
  std::shared_ptr<Ticket> offload_;
  double patience_s_ = 0;
};

/// Brings arrays from a GPU into pinned memory of the host and back. Kernels write payloads and
/// entries straight into that memory, so that only what is left of an array crosses the link. What
/// the host itself is to read is not compressed. Order and threads as with `DeviceChannel`.
class HostChannel {
 public:
  /// Throws `Error` if there is no such device.
  HostChannel(int gpu, const HostChannelOptions& options);

  /// As that of `DeviceChannel`.
  ~HostChannel();
  HostChannel(const HostChannel&) = delete;
  HostChannel& operator=(const HostChannel&) = delete;

  struct Offload {
    std::shared_ptr<Parcel> parcel;
    std::shared_ptr<Ticket> ticket;
  };

  /// Without a choice the array is stored as it is, and also where it is not aligned to 16 bytes.
  /// Throws `Error`.
  Offload offload(const std::byte* source, std::size_t bytes, const std::optional<Choice>& choice,
                  cudaStream_t source_stream);

  /// Brings back an array, which this or another channel took away; `target` is aligned to 16
  /// bytes. Waits on the host for the end of its offload, if that is still under way. Is mapped
  /// where the device has no memory for slots. Throws `Error`.
  std::shared_ptr<Ticket> restore(const std::shared_ptr<Parcel>& parcel, std::byte* target,
                                  cudaStream_t target_stream);

  /// Pins memory beforehand for arrays of so many bytes. Throws `Error`.
  void prepare(std::size_t bytes);

  /// As that of `DeviceChannel`.
  void load(const Choice& choice);

  const PinnedArena& arena() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lanescope::compress
