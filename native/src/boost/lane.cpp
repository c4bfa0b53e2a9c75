#include "boost/lane.hpp"

#include <algorithm>

#include "boost/cpus.hpp"
#include "boost/driver.hpp"
#include "boost/settings.hpp"
#include "boost/spinning.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kLeastPiece = 128 << 10, kPieceUnit = 64 << 10;
constexpr std::size_t kPiecesOfThread = 2;
/// Pieces up to here are moved also by the thread that calls: it is awake.
constexpr std::size_t kMostHelped = 128 << 10;
/// Each event takes about as long to record as a copy to begin. What waits for an event is a slot
/// to be free, or a piece to have come.
constexpr std::uint64_t kRecordedTogether = 2;
/// A GPU takes some µs to say that a stream has nothing to do.
constexpr std::int64_t kAtOnceNs = 30'000;
constexpr int kAttributeMps = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED of newer headers

/// @return the bytes of each piece: small ones let all threads have a part of a small copy.
std::size_t piece_bytes(std::size_t bytes, int threads) noexcept {
  const std::size_t parts = static_cast<std::size_t>(threads) * kPiecesOfThread;
  const std::size_t even = (bytes / parts + kPieceUnit - 1) / kPieceUnit * kPieceUnit;
  return std::clamp(even, kLeastPiece, PinnedRing::kSlotBytes);
}

/// @return the slots that each lane may have: each direction of each GPU has a part of what may be
/// pinned, and a ring is a quarter of the last-level cache, so that the GPU finds there what
/// threads have written, and they what it has.
std::size_t most_slots() noexcept {
  constexpr std::size_t kLeastInCache = 16, kPartOfCache = 4;
  const auto lanes = static_cast<std::size_t>(2 * std::max(host().gpus, 1));
  const std::size_t pinned = settings().ring / lanes / PinnedRing::kSlotBytes;
  const std::size_t cached =
      std::max(host().cache / kPartOfCache / PinnedRing::kSlotBytes, kLeastInCache);
  return std::clamp(std::min(pinned, cached), PinnedRing::kSegmentSlots, PinnedRing::kMostSlots);
}

bool is_shared_by_mps(CUdevice device) noexcept {
  int shared = 0;
  return driver().cuDeviceGetAttribute(&shared, static_cast<CUdevice_attribute>(kAttributeMps),
                                       device) == CUDA_SUCCESS &&
         shared != 0;
}

}  // namespace

/// A copy under way.
struct Lane::Pieces {
  Pieces(const Copy& of, Workers& by, CUstream through, Job& what)
      : copy(of), workers(by), stream(through), job(what), count(what.pieces()) {}

  [[nodiscard]] CUdeviceptr device(std::uint64_t piece) const noexcept {
    return copy.device + piece * job.piece_bytes;
  }

  const Copy& copy;
  Workers& workers;
  CUstream stream;
  Job& job;
  /// After a look at all there is to do: move a piece, or wait a moment.
  void go_on(bool moved) noexcept {
    if (!moved) moved = job.piece_bytes <= kMostHelped && job.move_next();
    if (moved)
      patience.begin_again();
    else
      patience.wait();
  }

  std::uint64_t count, issued = 0, recorded = 0;
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
  id_.store(context.id, std::memory_order_release);
  return !is_broken_;
}

void Lane::close() noexcept {
  id_.store(kNobody, std::memory_order_release);
  ring_.forget();
  events_ = 0;
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

bool Lane::prepare(std::size_t bytes, int threads, int node) noexcept {
  const std::size_t piece = piece_bytes(bytes, threads);
  const std::size_t wanted = std::min((bytes + piece - 1) / piece, most_slots());
  const std::size_t before = ring_.slots();
  reap();
  if (is_broken_ || before >= wanted || head_ != tail_ || !ring_.grow(wanted, node)) return false;
  // Other numbers of slots: what was moved into a slot of that number counts no more.
  for (auto& done : done_) done.store(0, std::memory_order_relaxed);
  for (; events_ < ring_.slots() && !is_broken_; ++events_)
    is_broken_ =
        driver().cuEventCreate(&arrivals_[events_], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
  return ring_.slots() > before;
}

/// Record that the GPU has come so far, for the pieces of some positions.
bool Lane::record(std::uint64_t begin, std::uint64_t end, CUstream stream) noexcept {
  for (std::uint64_t i = begin; i < end; ++i) recorded_by_[ring_.index(i)] = end - 1;
  return driver().cuEventRecord(arrivals_[ring_.index(end - 1)], stream) == CUDA_SUCCESS;
}

/// @return what the event says that was recorded for a position.
CUresult Lane::arrived(std::uint64_t position) const noexcept {
  return driver().cuEventQuery(arrivals_[ring_.index(recorded_by_[ring_.index(position)])]);
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
  if (ring_.slots() == 0) return Ended::room;
  reap();
  begin_again_where_empty();
  Job job;
  job.memory = copy.memory;
  job.bytes = copy.bytes;
  job.piece_bytes = piece_bytes(copy.bytes, workers.count());
  job.into_ring = copy.direction == Direction::to_gpu;
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

/// Record the pieces that were begun since the last event, where there are `together` or no more.
bool Lane::record_some(Pieces& its, std::uint64_t together) noexcept {
  if (its.issued < its.count && its.issued - its.recorded < together) return true;
  if (its.issued == its.recorded) return true;
  const std::uint64_t first = its.job.first_slot;
  if (!record(first + its.recorded, first + its.issued, its.stream)) return false;
  its.recorded = its.issued;
  return true;
}

Ended Lane::to_gpu(Pieces& its) noexcept {
  const Driver& cuda = driver();
  Job& job = its.job;
  const std::uint64_t end = job.first_slot + its.count;
  const bool returns_early = its.stream == its.copy.stream;
  const std::uint64_t together = its.count <= free_slots() ? its.count : kRecordedTogether;
  const auto allow = [&] {
    its.workers.allow(job, std::min(its.count, tail_ + ring_.slots() - job.first_slot));
  };
  allow();
  while (its.issued < its.count || (!returns_early && tail_ < end)) {
    bool moved = false;
    if (job.failed.load()) return record_some(its, 1) ? Ended::memory : Ended::failed;
    if (its.issued < its.count && job.is_done(its.issued)) {
      if (its.issued == 0) its.at_once = has_started();
      if (cuda.cuMemcpyHtoDAsync(its.device(its.issued), job.slot_of(its.issued),
                                 job.bytes_of(its.issued), its.stream) != CUDA_SUCCESS)
        return Ended::failed;
      ++its.issued;
      if (!record_some(its, together)) return Ended::failed;
      moved = true;
    }
    // Slots of earlier copies are free before those of this one.
    if (tail_ < job.first_slot + its.recorded) {
      const CUresult there = arrived(tail_);
      if (there != CUDA_SUCCESS && there != CUDA_ERROR_NOT_READY) return Ended::failed;
      if (there == CUDA_SUCCESS) {
        ++tail_;
        allow();
        moved = true;
      }
    }
    its.go_on(moved);
  }
  return Ended::carried;
}

Ended Lane::from_gpu(Pieces& its) noexcept {
  const Driver& cuda = driver();
  Job& job = its.job;
  std::uint64_t ready = 0, moved_out = 0;
  bool started = false;
  const std::uint64_t together = its.count < 4 * kRecordedTogether ? 1 : kRecordedTogether;
  const std::int64_t begun = watch::clock_ns(CLOCK_MONOTONIC);
  while (moved_out < its.count) {
    bool moved = false;
    if (job.failed.load()) return Ended::memory;
    if (its.issued < its.count && its.issued - moved_out < ring_.slots()) {
      if (cuda.cuMemcpyDtoHAsync(job.slot_of(its.issued), its.device(its.issued),
                                 job.bytes_of(its.issued), its.stream) != CUDA_SUCCESS)
        return Ended::failed;
      ++its.issued;
      const bool full = its.issued - moved_out == ring_.slots();
      if (!record_some(its, full ? 1 : together)) return Ended::failed;
      moved = true;
    }
    if (!started && has_started()) {
      started = true;
      its.at_once = watch::clock_ns(CLOCK_MONOTONIC) - begun <= kAtOnceNs;
    }
    if (started && ready < its.recorded) {
      const CUresult there = arrived(job.first_slot + ready);
      if (there != CUDA_SUCCESS && there != CUDA_ERROR_NOT_READY) return Ended::failed;
      if (there == CUDA_SUCCESS) {
        its.workers.allow(job, ++ready);
        moved = true;
      }
    }
    if (moved_out < ready && job.is_done(moved_out)) {
      ++moved_out;
      moved = true;
    }
    its.go_on(moved);
  }
  tail_ = job.first_slot + its.count;
  return Ended::carried;
}

}  // namespace lanescope::boost
