#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "boost/copy.hpp"
#include "boost/pinned_ring.hpp"
#include "boost/workers.hpp"

namespace lanescope::boost {

/// How a copy ended.
enum class Ended : std::uint8_t { carried, busy, memory, failed, room };

/// One direction of one context's copies: a ring, and what its pieces wait for. Who has locked it
/// uses it; nobody waits for the lock, as what a copy waits for may depend on the thread that
/// would.
///
/// What CUDA documents of copies of pageable memory ("API synchronization behavior" of the driver
/// API's manual, https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html), and what is
/// done here:
///
/// - A synchronous copy to a GPU: "a stream sync is performed before the copy is initiated", and
///   the call returns when the memory has been read, perhaps before the bytes are on the GPU. Here
///   pieces go through a stream of our own, which waits for what the copy's stream (the default one
///   of the context or of the thread) has been given until now, by an event. The call returns when
///   all bytes are on the GPU. So whatever is begun afterwards comes behind the copy, in streams
///   that do not wait for the default stream, too: more than is documented.
/// - An asynchronous one "might be synchronous with respect to host", the driver "may synchronize
///   with the stream and stage the copy". Here its pieces go through its own stream, so that all
///   that is in it comes before, all that is put into it afterwards comes behind, and what waits
///   for the stream waits for them. The call returns when the memory has been read. It waits for
///   the stream where the ring has no room for all of the copy, and not otherwise.
/// - A copy from a GPU "returns only once the copy has completed", and so does an asynchronous one
///   here, as it does by earlier versions of that manual, and may by today's. Pieces go through our
///   own stream, which waits for the copy's as above.
///
/// Our own stream does not wait for the default stream, nor that for it: else each piece would wait
/// for what other threads put into their streams meanwhile, and they for it.
class Lane {
 public:
  /// Make it one of a context, which is current.
  /// @return whether that can be.
  bool open(const Context& context, Direction direction) noexcept;

  [[nodiscard]] bool is_of(const Context& context, Direction direction) const noexcept {
    return owner_.load(std::memory_order_acquire) == owner(context) && direction_ == direction;
  }
  /// @return whether it was of a context that is no more: another one has its handle.
  [[nodiscard]] bool is_left_by(const Context& context) const noexcept {
    const auto owned = owner_.load(std::memory_order_acquire);
    return owned != kNobody && handle_ == context.handle && owned != owner(context);
  }
  [[nodiscard]] bool is_free() const noexcept { return owner_.load() == kNobody; }

  bool try_lock() noexcept { return !locked_.test_and_set(std::memory_order_acquire); }
  void unlock() noexcept { locked_.clear(std::memory_order_release); }

  /// Note what a copy's stream has been given until now.
  /// @return whether that can be.
  bool note_start(CUstream stream) noexcept;

  /// Wait until the stream has done that, a moment or for ever.
  /// @return whether it has.
  bool wait_for_start(bool for_ever) noexcept;

  /// Get slots for a copy, where none are in use.
  /// @return whether that took time: memory was pinned.
  bool prepare(std::size_t bytes, bool fresh, int threads, int node) noexcept;

  /// Copy, after `note_start`.
  /// @param at_once becomes whether the copy did not have to wait for its stream.
  Ended carry(const Copy& copy, Workers& workers, bool& at_once) noexcept;

  /// Forget the memory of a context that is no more.
  void close() noexcept;

 private:
  static constexpr unsigned long long kNobody = 0;

  static unsigned long long owner(const Context& context) noexcept { return context.id + 1; }

  struct Pieces;

  [[nodiscard]] std::size_t slot_bytes_for(std::size_t bytes, bool fresh,
                                           int threads) const noexcept;
  [[nodiscard]] std::size_t free_slots() const noexcept { return ring_.slots() - (head_ - tail_); }
  void reap() noexcept;
  void begin_again_where_empty() noexcept;
  [[nodiscard]] bool has_started() const noexcept;
  [[nodiscard]] CUresult arrived(std::uint64_t position) const noexcept;
  bool record(std::uint64_t begin, std::uint64_t end, CUstream stream) noexcept;
  bool issue(Pieces& pieces, std::uint64_t count) noexcept;
  Ended to_gpu(Pieces& pieces) noexcept;
  Ended from_gpu(Pieces& pieces) noexcept;

  std::atomic_flag locked_{};
  std::atomic<unsigned long long> owner_{kNobody};  ///< All zeros at first: no byte of a library.
  CUcontext handle_ = nullptr;
  Direction direction_ = Direction::to_gpu;
  bool is_broken_ = false;
  CUstream own_ = nullptr;
  CUevent start_ = nullptr;
  PinnedRing ring_;
  /// Of each slot: the last of the pieces that the GPU copied together with its own, and the event
  /// that was recorded behind that one.
  std::array<std::uint64_t, PinnedRing::kMostSlots> last_together_{};
  std::array<CUevent, PinnedRing::kMostSlots> arrivals_{};
  std::array<std::atomic<std::uint64_t>, PinnedRing::kMostSlots> done_{};
  /// Slots [tail, head) may still be read by the GPU for copies that have returned.
  std::uint64_t tail_ = 0, head_ = 0;
  CUstream pending_ = nullptr;  ///< The stream of these.
};

}  // namespace lanescope::boost
