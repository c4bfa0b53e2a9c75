#include "compress/slab_ring.hpp"

#include <algorithm>

#include "compress/page_kernels.hpp"
#include "compress/parcel.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastSlots = 2;

std::size_t slots_of(const ChannelOptions& options) {
  return std::max<std::size_t>(kLeastSlots, options.slots);
}

/// Room for three quarters of the slabs' payloads, which become smaller, and at least twice for
/// what a part of a slab and all that was coded at the same time as its first and last blocks
/// takes.
std::size_t ring_bytes_for(int gpu, const ChannelOptions& options) {
  const int at_once = (options.sms > 0 ? sms_of(gpu, options) : kUsualSmsOfHost) * kMostGroups;
  const std::size_t piece =
      options.slab_bytes / kMostCuts + 2 * static_cast<std::size_t>(at_once) * kBlockBytes;
  return std::max(slots_of(options) * options.slab_bytes / 4 * 3, 2 * piece);
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

}  // namespace

SlabRing::SlabRing(int gpu, const ChannelOptions& options, std::size_t most_slab_bytes)
    : bytes_(ring_bytes_for(gpu, options)), memory_(gpu, bytes_) {
  const std::size_t count = slots_of(options);
  for (std::size_t i = 0; i < count; ++i) slots_.emplace_back(gpu, most_slab_bytes / kBlockBytes);
}

/// Chooses where a slab's payloads lie: behind those of the slab before, or at the ring's begin.
/// Returns from where those that both have are to be carried there, if they are.
std::optional<std::size_t> SlabRing::place(const StoredSlabs& from, std::size_t part) {
  const Piece& piece = from.pieces[part];
  const Slot& before = slots_[before_];
  Slot& slot = slots_[slot_];
  const std::size_t size = piece.end - piece.begin;
  const std::size_t next =
      part == 0 ? padded(before.end) : before.begin + piece.begin - from.pieces[part - 1].begin;
  const bool fits = next + size <= bytes_;
  slot.begin = fits ? next : 0;
  slot.end = slot.begin + size;
  if (fits || piece.carried_end == piece.begin) return std::nullopt;
  return next;
}

/// Brings what the slab before does not have of the payloads, to where nothing is read.
SlabRing::Staged SlabRing::bring(const StoredSlabs& from, std::size_t part, cudaStream_t copying,
                                 cudaStream_t in) {
  before_ = slot_;
  slot_ = (slot_ + 1) % slots_.size();
  const Piece& piece = from.pieces[part];
  const std::size_t carried = piece.carried_end - piece.begin;
  Slot& slot = slots_[slot_];
  const std::span<const Entry> entries(from.entries + from.slabs[part].first_block,
                                       from.slabs[part].blocks);
  // By a kernel: for a copy of so few, the copy engine would leave the link idle.
  launch_copy_part({std::as_bytes(entries).data(), static_cast<std::byte*>(slot.entries.data()),
                    static_cast<std::uint32_t>(entries.size_bytes()), 0},
                   in);
  let_wait(copying, slot.free);
  const std::optional<std::size_t> carried_from = place(from, part);
  for (const Slot& other : slots_)
    if (&other != &slot && other.overlaps(slot.begin + carried, slot.end))
      let_wait(copying, other.free);
  if (piece.end > piece.carried_end)
    copy(at(slot.begin + carried), from.payloads + piece.carried_end, piece.end - piece.carried_end,
         cudaMemcpyHostToDevice, copying);
  record(slot.full, copying);
  let_wait(in, slot.full);
  if (carried_from) {
    copy(at(slot.begin), at(*carried_from), carried, cudaMemcpyDeviceToDevice, in);
    record(slots_[before_].free, in);
  }
  return {static_cast<const Entry*>(slot.entries.data()), at(slot.begin), piece.end - piece.begin};
}

void SlabRing::release(cudaStream_t in) {
  record(slots_[slot_].free, in);
}

}  // namespace lanescope::compress
