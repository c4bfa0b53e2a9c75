#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/blocks.hpp"
#include "compress/difference.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {

// What the kernels of a GPU make of an array: for each block of 64 KiB an entry, and payloads,
// which lie one behind another in the order in which blocks happened to be ready. The payload of a
// block is the one that its stream would have, to the bit; only the place differs.

/// Most blocks that an SM works on at the same time: as far out of order may payloads lie.
inline constexpr int kMostGroups = 4;

/// A block on its way: how it is stored, and where its payload begins.
struct Entry {
  Descriptor descriptor;
  std::uint64_t offset = 0;  ///< Bytes from the first payload on, a multiple of 16.
};
static_assert(sizeof(Entry) == 16);

/// Where the blocks of an array's values lie: one behind another, or, of pages, each at a place of
/// its own.
struct Values {
  const std::byte* data = nullptr;           ///< Of the first block; aligned to 16 bytes.
  const std::byte* const* places = nullptr;  ///< Of each block, of which all are whole, where the
                                             ///< encoding device reads it. Null: by `data`.

  Values(const std::byte* one_behind_another) : data(one_behind_another) {}
  Values(const std::byte* first, const std::byte* const* each) : data(first), places(each) {}
};

/// How an encoder tells how far it has come, to a decoder that follows it.
struct Progress {
  unsigned int* stored = nullptr;  ///< A word for each block, which becomes `mark` when the block
                                   ///< is stored; memory as that of `Sink`. Null: nobody follows.
  unsigned int mark = 0;           ///< Not what the words were before.
  unsigned int* taken = nullptr;   ///< Becomes `mark` when no more than `left` blocks are left that
                                   ///< nobody works on; in the encoding device's own memory.
  unsigned int left = 0;
};

/// What an encoder takes differences to, as it reads values: the base of an update.
struct TakenBase {
  const std::byte* base = nullptr;  ///< Aligned to 16 bytes. Null: values are coded themselves.
  Differing differing = {};
  unsigned long long* sums = nullptr;  ///< Gets the sum of each block of the base; memory as that
                                       ///< of `Sink`. Null: nobody wants them.
  std::byte* differences = nullptr;    ///< In the encoding device's own memory, a block for each
                                       ///< group that the device has room for. Null where the
                                       ///< codec needs none (`codes_in_order`).
};

/// Where payloads go: memory that the encoding device can write, which may be its own, a peer's, or
/// mapped memory of the host.
struct Sink {
  Entry* entries;            ///< One for each block.
  std::byte* payloads;       ///< Aligned to 16 bytes; `room` bytes.
  std::size_t room;          ///< `padded(bytes)` is always enough: blocks may all be raw.
  unsigned long long* used;  ///< In the encoding device's own memory; 0 before, see `bytes_used`.
  int apart_clocks = 0;      ///< By so much later each further group of an SM begins.
  Progress progress = {};
  Binding binding = {};
  TakenBase taken = {};
};

/// Across a link the first payload counts, and what groups compute meanwhile does not: one after
/// another they have it ready sooner. Of some 2 GHz; about half of what a block takes, and for the
/// slower link more.
inline constexpr int kApartToPeer = 6000, kApartToHost = 16000;

/// Of `Sink::used`, the lowest so many bits are the bytes of all payloads, each padded. Those above
/// count the blocks that were taken after the first ones, or all where somebody follows.
inline constexpr int kUsedBits = 40;
inline constexpr unsigned long long kOneTaken = 1ULL << kUsedBits;
LANESCOPE_LANES constexpr std::uint64_t bytes_used(unsigned long long used) {
  return used & (kOneTaken - 1);
}

/// How a decoder follows an encoder that still runs. It may begin when one block is stored: then
/// the encoder has begun, and needs nothing that the decoder holds.
struct Arrival {
  const unsigned int* stored = nullptr;  ///< What `Progress` has, in the decoding device's memory
                                         ///< or the host's. Null: all is there.
  unsigned int mark = 0;
  unsigned int* given_up = nullptr;  ///< Becomes `mark` when a block did not come in time, so that
                                     ///< no other is waited for; from outside also `kGivenUpAll`.
  std::uint64_t patience_ns = 0;
};
inline constexpr unsigned int kGivenUpAll = ~0U;

/// Blocks that are decoded alone, one behind another.
struct Chosen {
  const std::uint32_t* blocks = nullptr;  ///< Their numbers, where kernels read them; null: all.
  std::size_t count = 0;
};

struct Fault;

/// What a decoder puts differences onto. A block of values is written when it is known that it is
/// not damaged, and that the base of this block is the sender's; else that stays as it is.
struct PutBase {
  const std::byte* base = nullptr;  ///< Aligned to 16 bytes; may be where the values go to.
  Differing differing = {};
  const unsigned long long* sums = nullptr;  ///< Those of `TakenBase`.
  std::byte* values = nullptr;  ///< In the decoding device's own memory, a block for each group
                                ///< that the device has room for. Null where the codec needs none.
  Fault* fault = nullptr;       ///< What says that the base of a block is another one.
};

/// What a decoder found wrong; in the decoding device's own memory, all zeros before.
struct Fault {
  unsigned int blocks;       ///< How many blocks are wrong.
  unsigned int first_block;  ///< 1 + the lowest block that is wrong; 0 where none is.
  unsigned int what;         ///< Of that block: 1 payload, 2 checksum, 3 mode, 4 never came.
};

}  // namespace lanescope::compress
