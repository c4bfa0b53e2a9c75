#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compress/device_blocks.hpp"
#include "compress/format.hpp"
#include "compress/host_codec.hpp"
#include "compress/pinned_arena.hpp"
#include "compress/slabs.hpp"
#include "compress/ticket.hpp"

namespace lanescope::compress {

/// A slab is cut into so many at most.
inline constexpr std::size_t kMostCuts = 4;

/// An array that lies in pinned memory of the host, as it is or compressed: entries for each block,
/// and payloads one behind another. Stays when its channel goes.
class Parcel {
 public:
  /// For channels. Takes memory for the array as it is, and for its entries: what is left of it
  /// goes back when the size is known. Its blocks are bound to `number`. Throws `Error`.
  Parcel(std::shared_ptr<PinnedArena> arena, std::size_t bytes, std::size_t slab_bytes,
         const std::optional<Choice>& choice, std::uint64_t number);

  /// Of a stream of which the `front`, all before its payloads, was read from `layout`: those are
  /// put into `payload_room` before it is restored. Throws `Error`.
  Parcel(std::shared_ptr<PinnedArena> arena, std::size_t slab_bytes, const Layout& layout,
         std::span<const std::byte> front);
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  const std::optional<Choice>& choice() const noexcept { return choice_; }

  /// Whether it holds differences to a base.
  bool is_update() const noexcept { return choice_ && choice_->difference != UpdateKind::none; }

  /// Bytes of entries and payloads. Waits for the offload as `Ticket::wait` does.
  std::size_t stored_bytes();

  /// Pinned memory that it holds at the moment.
  std::size_t held_bytes() const;

  /// Gives its memory back: at once, or with the end of what is under way from or to it.
  void evict();
  bool evicted() const;

  /// All before the payloads of the stream that it is, of an array of one dimension: values of
  /// `dtype` where it is stored as it is, else of its choice. Waits for the offload. Throws
  /// `Error`, also where it was evicted, holds differences, or blocks are not where they must be.
  std::vector<std::byte> stream_front(Dtype dtype);

  /// Copies the payloads of blocks, as they stand in that stream, and returns how many bytes;
  /// `out` has room for `kBlockBytes` a block. Throws `Error`.
  std::size_t copy_payloads(std::size_t first, std::size_t last, std::span<std::byte> out);

  /// Of a stream: where its payloads belong.
  std::span<std::byte> payload_room();

  /// For tests: changes the entry of a block, or lets two blocks change places.
  void damage(std::size_t block);
  void exchange(std::size_t one, std::size_t other);

 private:
  friend class HostChannel;

  std::size_t blocks() const noexcept { return choice_ ? blocks_of(bytes_) : 0; }
  std::size_t front_bytes() const noexcept;
  static std::size_t front_bytes(std::size_t blocks) noexcept;  ///< Of entries, before payloads.
  Entry* entries() const { return reinterpret_cast<Entry*>(data_); }
  Entry* rebased() const { return entries() + blocks(); }
  std::byte* payloads() const { return data_ + front_bytes(); }
  void take(std::size_t bytes);

  /// The memory, which stays as long as somebody has it. Null where the array has no bytes. Throws
  /// `Error` where the parcel was evicted.
  std::shared_ptr<PinnedRange> memory() const;

  /// When the payloads' bytes are known.
  void shrink(std::size_t used);

  /// Fixes the slabs that it comes back in, for good: the first channel that restores it says how
  /// large they are at most. Not those of an update.
  void cut_into(std::size_t most_bytes);

  /// Bytes of the array in a slab; other threads may fix them meanwhile, until there are pieces.
  std::size_t slab_bytes() const;

  /// Where the payloads of each slab lie, with entries rebased to that. Made once: by the first
  /// channel, which cuts slabs smaller where those of one reach over more than so many bytes.
  const std::vector<Piece>& pieces(std::size_t most_bytes);

  /// Its descriptors, in the order of blocks. Throws `Error` where a payload does not lie in it.
  std::vector<Descriptor> descriptors(const Binding& binding) const;

  std::shared_ptr<PinnedArena> arena_;  // lives as long as the last parcel
  std::size_t bytes_;
  std::size_t slab_bytes_;
  bool is_cut_ = false;  // whether these are fixed
  std::optional<Choice> choice_;
  std::uint64_t number_;  // what its blocks are bound to: that of the offload, or of a stream
  mutable std::mutex mutex_;
  std::shared_ptr<PinnedRange> memory_;
  std::byte* data_ = nullptr;
  bool evicted_ = false;
  std::size_t room_;  // for payloads
  std::vector<Piece> pieces_;
  std::vector<std::byte> read_front_;  // of the stream that it came from, if any
  unsigned long long base_sum_ = 0;    // of an update, once it is offloaded
  std::shared_ptr<Ticket> offload_;
  double patience_s_ = 0;
};

}  // namespace lanescope::compress
