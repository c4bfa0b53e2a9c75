#include "boost/lane.hpp"

#include <algorithm>

#include "boost/cpus.hpp"
#include "boost/driver.hpp"
#include "boost/pages.hpp"
#include "boost/settings.hpp"
#include "boost/spinning.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kPiecesOfThread = 6;
constexpr std::size_t kMostPiece = 512 << 10;
/// Pieces up to here are moved also by the thread that calls: it is awake.
constexpr std::size_t kMostHelped = 128 << 10;
/// Each copy of a GPU takes some µs besides its bytes' time on the link (8 to 10 in one tuning run
/// on an H100): what is ready goes together, while two copies are before it.
constexpr std::uint64_t kAhead = 2;
constexpr std::size_t kMostTogether = 4 << 20, kFirstTogether = 256 << 10;
/// To a GPU the smallest copies go at once and half of small ones: threads have it ready in the
/// time of two more copies.
constexpr std::size_t kMostAtOnce = 512 << 10, kMostWaitedFor = 1 << 20;

/// Of larger copies the host's memory is busy with what threads read: the ring stays in caches.
constexpr std::size_t kMostPastCaches = 32 << 20;

/// @return the least bytes of a copy that go to a GPU together.
std::size_t least_together(std::size_t bytes) noexcept {
  if (bytes <= kMostAtOnce) return bytes;
  return std::clamp(bytes / 2, kFirstTogether, kMostWaitedFor);
}

/// A GPU takes some µs to say that a stream has nothing to do.
constexpr std::int64_t kAtOnceNs = 30'000;

/// @return bytes that each lane may have: each direction of each GPU has a part of what may be
/// pinned, and a ring is a quarter of the last-level cache, so that the GPU finds there what
/// threads have written, and they what it has.
std::size_t most_bytes() noexcept {
  constexpr std::size_t kLeastInCache = 16 << 20, kPartOfCache = 4;
  const auto lanes = static_cast<std::size_t>(2 * std::max(host().gpus, 1));
  const std::size_t cached = std::max(host().cache / kPartOfCache, kLeastInCache);
  return std::clamp(std::min(settings().ring / lanes, cached), PinnedRing::kSegmentBytes,
                    PinnedRing::kMostBytes);
}

}  // namespace

/// A copy under way.
struct Lane::Pieces {
  Pieces(const Copy& of, Workers& by, CUstream through, Job& what)
      : copy(of), workers(by), stream(through), job(what), count(what.pieces()) {}

  [[nodiscard]] CUdeviceptr device(std::uint64_t piece) const noexcept {
    return copy.device + job.begin_of(piece);
  }

  /// Look at the memory of a small copy once. Where pages are missing threads get them, each its
  /// own.
  void look_at_memory() noexcept {
    job.is_ready = job.bytes <= kMostLookedAt && is_ready(job.memory, job.bytes, !job.into_ring);
  }

  /// After a look at all there is to do: move a piece, or wait a moment.
  void go_on(bool moved) noexcept {
    if (!moved) moved = job.piece_bytes <= kMostHelped && job.move_next();
    if (moved)
      patience.begin_again();
    else
      patience.wait();
  }

  const Copy& copy;
  Workers& workers;
  CUstream stream;
  Job& job;
  std::uint64_t count, issued = 0;
  bool at_once = false;
  Patience patience;
};

bool Lane::open(const Context& context, Direction direction) noexcept {
  const Driver& cuda = driver();
  close();
  handle_ = context.handle;
  direction_ = direction;
  is_broken_ = is_shared_by_mps(context.device) ||
               cuda.cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
               cuda.cuEventCreate(&start_, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
  owner_.store(owner(context), std::memory_order_release);
  return !is_broken_;
}

void Lane::close() noexcept {
  owner_.store(kNobody, std::memory_order_release);
  ring_.forget();
  arrivals_.fill(nullptr);
  tail_ = head_;
}

bool Lane::note_start(CUstream stream) noexcept {
  is_broken_ = is_broken_ || driver().cuEventRecord(start_, stream) != CUDA_SUCCESS;
  return !is_broken_;
}

bool Lane::has_started() const noexcept {
  return driver().cuEventQuery(start_) != CUDA_ERROR_NOT_READY;
}

bool Lane::wait_for_start(bool for_ever) noexcept {
  const std::int64_t begun = watch::clock_ns(CLOCK_MONOTONIC);
  for (Patience patience; !has_started(); patience.wait())
    if (!for_ever && watch::clock_ns(CLOCK_MONOTONIC) - begun > kAtOnceNs) return false;
  return true;
}

/// @return the bytes of each piece: small ones let all threads have a part of a small copy. Of new
/// memory a piece is a huge page, which threads would have to wait for each other to get; of less
/// than two such pages a large part, as more than two threads take longer for single pages.
std::size_t Lane::slot_bytes_for(std::size_t bytes, bool fresh, int threads) const noexcept {
  if (head_ != tail_) return ring_.slot_bytes();  // of what is under way
  if (fresh) return bytes >= 2 * PinnedRing::kMostSlot ? PinnedRing::kMostSlot : kMostPiece;
  const auto count = static_cast<std::size_t>(threads);
  std::size_t size = PinnedRing::kLeastSlot;
  while (size < kMostPiece && size * count * kPiecesOfThread < bytes) size *= 2;
  return size;
}

bool Lane::prepare(std::size_t bytes, bool fresh, int threads, int node) noexcept {
  reap();
  const std::size_t before = ring_.bytes(), wanted = std::min(bytes, most_bytes());
  if (is_broken_ || head_ != tail_) return false;
  ring_.divide(slot_bytes_for(bytes, fresh, threads));
  return before < wanted && ring_.grow(wanted, node) && ring_.bytes() > before;
}

/// Record that the GPU has come so far, for the pieces of some positions.
bool Lane::record(std::uint64_t begin, std::uint64_t end, CUstream stream) noexcept {
  const Driver& cuda = driver();
  for (std::uint64_t i = begin; i < end; ++i) last_together_[ring_.index(i)] = end - 1;
  CUevent& event = arrivals_[ring_.index(end - 1)];
  if (event == nullptr && cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  return cuda.cuEventRecord(event, stream) == CUDA_SUCCESS;
}

/// @return what the event says that was recorded for a position.
CUresult Lane::arrived(std::uint64_t position) const noexcept {
  const CUevent event = arrivals_[ring_.index(last_together_[ring_.index(position)])];
  return event == nullptr ? CUDA_SUCCESS : driver().cuEventQuery(event);
}

void Lane::reap() noexcept {
  while (tail_ < head_ && arrived(tail_) == CUDA_SUCCESS) ++tail_;
}

/// Use the first slots again: what was there last is still in a cache.
void Lane::begin_again_where_empty() noexcept {
  if (head_ == tail_) head_ = tail_ = (head_ + ring_.slots() - 1) / ring_.slots() * ring_.slots();
}

Ended Lane::carry(const Copy& copy, Workers& workers, bool& at_once) noexcept {
  const Driver& cuda = driver();
  if (is_broken_) return Ended::failed;
  if (ring_.bytes() == 0) return Ended::room;
  reap();
  begin_again_where_empty();
  Job job;
  job.memory = copy.memory;
  job.bytes = copy.bytes;
  job.piece_bytes = ring_.slot_bytes();
  job.first_bytes =
      job.piece_bytes - reinterpret_cast<std::uintptr_t>(copy.memory) % job.piece_bytes;
  job.into_ring = copy.direction == Direction::to_gpu;
  job.past_caches = job.into_ring && copy.bytes <= kMostPastCaches;
  job.ring = &ring_;
  job.first_slot = head_;
  job.done = done_.data();
  if (head_ != tail_ && pending_ != copy.stream && job.pieces() > free_slots()) return Ended::busy;
  const bool returns_early = copy.asynchronous && copy.direction == Direction::to_gpu;
  Pieces pieces(copy, workers, returns_early ? copy.stream : own_, job);
  if (!returns_early && cuda.cuStreamWaitEvent(own_, start_, 0) != CUDA_SUCCESS) {
    is_broken_ = true;
    return Ended::failed;
  }
  if (!workers.add(job)) return Ended::busy;
  const Ended ended = copy.direction == Direction::to_gpu ? to_gpu(pieces) : from_gpu(pieces);
  workers.remove(job);
  at_once = pieces.at_once;
  head_ = job.first_slot + pieces.count;
  pending_ = copy.stream;
  if (ended != Ended::carried) {
    // The driver copies all of it once more: in the copy's own stream behind these pieces, else now
    // that they are over.
    if (!returns_early) cuda.cuStreamSynchronize(own_);
    is_broken_ |= ended == Ended::failed;
  }
  return ended;
}

/// Have the GPU copy the next pieces, which lie one behind the other.
bool Lane::issue(Pieces& its, std::uint64_t count) noexcept {
  const Driver& cuda = driver();
  const std::uint64_t first = its.issued, end = first + count;
  char* const slot = its.job.slot_of(first);
  const std::size_t bytes =
      std::min(its.job.bytes, its.job.begin_of(end)) - its.job.begin_of(first);
  const CUresult result = its.job.into_ring
                              ? cuda.cuMemcpyHtoDAsync(its.device(first), slot, bytes, its.stream)
                              : cuda.cuMemcpyDtoHAsync(slot, its.device(first), bytes, its.stream);
  its.issued = end;
  return result == CUDA_SUCCESS &&
         record(its.job.first_slot + first, its.job.first_slot + end, its.stream);
}

Ended Lane::to_gpu(Pieces& its) noexcept {
  Job& job = its.job;
  const std::uint64_t end = job.first_slot + its.count;
  const std::uint64_t most = kMostTogether / job.piece_bytes;
  const std::size_t least = least_together(job.bytes);
  const bool returns_early = its.stream == its.copy.stream;
  std::uint64_t ahead = 0;  // copies of the GPU that are not known to be over
  const auto allow = [&] {
    its.workers.allow(job, std::min(its.count, tail_ + ring_.slots() - job.first_slot));
  };
  its.look_at_memory();
  allow();
  while (its.issued < its.count || (!returns_early && tail_ < end)) {
    bool moved = false;
    if (job.failed.load()) return Ended::memory;
    const std::uint64_t in_a_row =
        std::min({its.count - its.issued, most, ring_.in_a_row(job.first_slot + its.issued)});
    const std::uint64_t done = job.done_from(its.issued, in_a_row);
    const bool enough = done * job.piece_bytes >= least && ahead < kAhead;
    if (done > 0 && (enough || done == in_a_row)) {
      if (its.issued == 0) its.at_once = has_started();
      if (!issue(its, done)) return Ended::failed;
      ++ahead;
      moved = true;
    }
    // Slots of earlier copies are free before those of this one.
    if (tail_ < job.first_slot + its.issued) {
      const CUresult there = arrived(tail_);
      if (there != CUDA_SUCCESS && there != CUDA_ERROR_NOT_READY) return Ended::failed;
      if (there == CUDA_SUCCESS) {
        if (tail_ >= job.first_slot && ahead > 0) --ahead;
        tail_ = std::max(tail_, last_together_[ring_.index(tail_)]) + 1;
        allow();
        moved = true;
      }
    }
    its.go_on(moved);
  }
  return Ended::carried;
}

Ended Lane::from_gpu(Pieces& its) noexcept {
  Job& job = its.job;
  std::uint64_t ready = 0, moved_out = 0;
  std::uint64_t together = std::max<std::uint64_t>(kFirstTogether / job.piece_bytes, 1);
  bool started = false, looked = false;
  const std::int64_t begun = watch::clock_ns(CLOCK_MONOTONIC);
  while (moved_out < its.count) {
    bool moved = false;
    if (job.failed.load()) return Ended::memory;
    const std::uint64_t free = ring_.slots() - (its.issued - moved_out);
    const std::uint64_t next =
        std::min({together, its.count - its.issued, ring_.in_a_row(job.first_slot + its.issued)});
    if (next > 0 && next <= free) {
      if (!issue(its, next)) return Ended::failed;
      together =
          std::min(2 * together, std::max<std::uint64_t>(1, kMostTogether / 4 / job.piece_bytes));
      moved = true;
    }
    if (!looked) its.look_at_memory();  // while the GPU copies
    looked = true;
    if (!started && has_started()) {
      started = true;
      its.at_once = watch::clock_ns(CLOCK_MONOTONIC) - begun <= kAtOnceNs;
    }
    if (started && ready < its.issued) {
      const CUresult there = arrived(job.first_slot + ready);
      if (there != CUDA_SUCCESS && there != CUDA_ERROR_NOT_READY) return Ended::failed;
      if (there == CUDA_SUCCESS) {
        ready = last_together_[ring_.index(job.first_slot + ready)] + 1 - job.first_slot;
        its.workers.allow(job, ready);
        moved = true;
      }
    }
    if (const std::uint64_t done = job.done_from(moved_out, ready - moved_out); done > 0) {
      moved_out += done;
      moved = true;
    }
    its.go_on(moved);
  }
  tail_ = job.first_slot + its.count;
  return Ended::carried;
}

}  // namespace lanescope::boost
