#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "compress/channel.hpp"
#include "compress/device_blocks.hpp"
#include "compress/slabs.hpp"
#include "cuda/cuda_handles.hpp"
#include "cuda/shared_memory.hpp"

namespace lanescope::compress {

// Slots of a channel between two processes: room for slabs in the receiver's memory, and a word for
// each slot in the sender's memory by which the receiver gives it back. Each process has its own
// memory, which the other one attaches.

/// Where the parts of each slot lie; the same in both processes.
struct SlotShape {
  std::size_t slab_bytes;
  std::size_t blocks;
  std::size_t entries_at, payloads_at;  ///< From a slot's begin on; its words come first.
  std::size_t bytes;                    ///< Of a slot.

  explicit SlotShape(std::size_t slab_bytes);
};

/// A piece of an array that crosses as it is: one copy, and a word that tells that it is there.
struct RawChunk {
  Slab of_slab;  ///< Where it lies in its slab.
  bool second;   ///< It has another word than the first chunk of its slab.
};

/// What a slab crosses in. A copy costs as much as 4 MiB on NVLink: so slabs cross whole, but the
/// last one of an array, of which the first half leaves its slot while the second half comes in.
std::vector<RawChunk> chunks_of(const Slab& slab, bool is_last, std::size_t slab_bytes);

/// Memory of this process that another one uses, or the other way round, and its first byte.
class PeerMemory {
 public:
  /// Zeros of this process; at least as many bytes. Throws `Error`.
  PeerMemory(int device, std::size_t bytes);

  /// The other process's, as its `handle` says. Throws `Error`.
  PeerMemory(int device, std::size_t bytes, const std::string& handle);

  /// What the other process needs.
  std::string handle() const;
  std::byte* data() const;

 private:
  std::variant<SharedMemory, AttachedMemory> memory_;
};

/// The slots as one process sees them.
class PeerSlots {
 public:
  /// One use of a slot.
  struct Use {
    std::size_t slot;
    unsigned int mark;  ///< 1 in its first use, and one more in each.
  };

  PeerSlots(const ChannelOptions& options, std::byte* rooms, std::byte* words);

  /// The next one, which both processes count.
  Use next();

  /// The last ones, as many as there are slots at most, the newest first.
  std::vector<Use> last(std::size_t count) const;

  std::size_t slots() const noexcept { return marks_.size(); }
  unsigned int mark(std::size_t slot) const { return marks_[slot]; }
  const SlotShape& shape() const noexcept { return shape_; }

  unsigned int* stored(std::size_t slot) const;
  unsigned int* given_up(std::size_t slot) const { return stored(slot) + shape_.blocks; }
  /// The word of a chunk.
  unsigned int* stored(std::size_t slot, const RawChunk& chunk) const;
  Entry* entries(std::size_t slot) const;
  std::byte* payloads(std::size_t slot) const;

  /// Becomes the mark of a use that is over; in the sender's memory.
  unsigned int* freed(std::size_t slot) const;

  static std::size_t rooms_bytes(const ChannelOptions& options);
  static std::size_t words_bytes(const ChannelOptions& options);

 private:
  SlotShape shape_;
  std::byte* rooms_;
  std::byte* words_;
  std::vector<unsigned int> marks_;
  std::size_t uses_ = 0;
};

/// Words that streams set in the other process's memory. The driver sets those of its own device
/// alone: so it sets one here, and it is copied.
class Messenger {
 public:
  Messenger(int device, std::size_t slots);

  /// Sets a word of a slot, there, when the stream has come so far. Throws `Error`.
  void tell(std::size_t slot, unsigned int* there, unsigned int mark, cudaStream_t stream) const;

 private:
  DeviceMemory words_;
};

}  // namespace lanescope::compress
