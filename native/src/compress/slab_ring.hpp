#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "compress/channel.hpp"
#include "compress/device_blocks.hpp"
#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// An array in pinned memory: its entries as `rebase` makes them, and payloads by slab.
struct StoredSlabs {
  std::span<const Slab> slabs;
  std::span<const Piece> pieces;
  const Entry* entries;
  const std::byte* payloads;
};

/// Memory of a GPU to which the copy engine brings slabs of compressed arrays, one after another,
/// while a kernel decodes those that came before. Their payloads lie in a ring, those of one behind
/// those of the one before as on the host: what two of them share crosses the link once, and lies
/// there once. A kernel that read entries on the host would wait for each while the link is full.
class SlabRing {
 public:
  /// As many slabs as `options.slots` are on their way or decoded at a time. Throws `Error`.
  SlabRing(int gpu, const ChannelOptions& options, std::size_t most_slab_bytes);

  /// A larger piece cannot be brought.
  std::size_t most_piece_bytes() const { return bytes_ / 2; }

  /// A slab on the GPU: its entries are as from the begin of its payloads on.
  struct Staged {
    const Entry* entries;
    const std::byte* payloads;
    std::size_t bytes;
  };

  /// Puts on `copying` what brings a slab, and lets `in` wait for it. Slabs of an array are brought
  /// from the first to the last. Throws `Error`.
  Staged bring(const StoredSlabs& from, std::size_t part, cudaStream_t copying, cudaStream_t in);

  /// What is on `in` until now has read what `bring` returned. Throws `Error`.
  void release(cudaStream_t in);

 private:
  /// Where a slab's payloads lie, and memory for its entries.
  struct Slot {
    Slot(int gpu, std::size_t most_entries)
        : entries(gpu, most_entries * sizeof(Entry)),
          full(event_on(gpu, Timing::none)),
          free(event_on(gpu, Timing::none)) {}
    bool overlaps(std::size_t from, std::size_t to) const { return begin < to && from < end; }

    DeviceMemory entries;
    Event full, free;
    std::size_t begin = 0, end = 0;
  };

  std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.data()) + offset;
  }
  std::optional<std::size_t> place(const StoredSlabs& from, std::size_t part);

  std::size_t bytes_;
  DeviceMemory memory_;
  std::vector<Slot> slots_;
  std::size_t slot_ = 0, before_ = 0;  // of the slab that was brought last, and before
};

}  // namespace lanescope::compress
