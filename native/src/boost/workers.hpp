#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "boost/pinned_ring.hpp"

namespace lanescope::boost {

/// The bytes of one copy, which threads move between the program's memory and a ring, piece by
/// piece. Piece i is in the ring's slot `first_slot` + i.
struct Job {
  char* memory = nullptr;
  std::size_t bytes = 0, piece_bytes = 0;
  bool into_ring = true, past_caches = false;
  /// Set before any piece is allowed: nobody needs to look at the memory for each piece, which
  /// takes about as long as moving a small one.
  bool is_ready = false;
  const PinnedRing* ring = nullptr;
  std::uint64_t first_slot = 0;

  // Of `Workers`.
  std::atomic<std::uint64_t> next{0}, allowed{0};
  std::size_t place = 0;

  /// Memory could not be read or written; no piece is begun any more.
  std::atomic<bool> failed{false};
  /// Of each slot: what was moved there last, by its place in the order of all pieces, and 1.
  std::atomic<std::uint64_t>* done = nullptr;

  /// Bytes of the first piece; the others have `piece_bytes`, the last one the rest.
  std::size_t first_bytes = 0;

  [[nodiscard]] std::uint64_t pieces() const noexcept {
    return bytes <= first_bytes ? 1 : 1 + (bytes - first_bytes + piece_bytes - 1) / piece_bytes;
  }
  [[nodiscard]] std::size_t begin_of(std::uint64_t piece) const noexcept {
    return piece == 0 ? 0 : first_bytes + (piece - 1) * piece_bytes;
  }
  [[nodiscard]] std::size_t bytes_of(std::uint64_t piece) const noexcept {
    return std::min(bytes, begin_of(piece + 1)) - begin_of(piece);
  }
  /// A shorter first piece is at the end of its slot: what follows lies behind it.
  [[nodiscard]] char* slot_of(std::uint64_t piece) const noexcept {
    return ring->slot(first_slot + piece) + (piece == 0 ? piece_bytes - first_bytes : 0);
  }
  /// @return how many pieces from one on are done, at most `most`.
  [[nodiscard]] std::uint64_t done_from(std::uint64_t piece, std::uint64_t most) const noexcept {
    std::uint64_t count = 0;
    while (count < most && is_done(piece + count)) ++count;
    return count;
  }
  [[nodiscard]] bool is_done(std::uint64_t piece) const noexcept {
    const std::uint64_t position = first_slot + piece;
    return done[ring->index(position)].load(std::memory_order_acquire) == position + 1;
  }
  void set_done(std::uint64_t piece) noexcept {
    const std::uint64_t position = first_slot + piece;
    done[ring->index(position)].store(position + 1, std::memory_order_release);
  }

  /// Take the next piece that is allowed, and move it.
  /// @return whether there was one.
  bool move_next() noexcept;
};

/// Threads that move bytes of jobs. They call nothing of CUDA and wait for no GPU: a job whose
/// pieces are not allowed yet holds up no other one. They hold no lock while there is something to
/// move: a thread that waits for one gives up its CPU, and in a virtual machine has it back tens of
/// µs later, which is longer than a piece takes.
class Workers {
 public:
  /// @return `count` threads that run on some CPUs, or fewer where no more can be had; null where
  /// there is not one. They are there until the process ends.
  static Workers* start(int count, const cpu_set_t& cpus) noexcept;

  [[nodiscard]] int count() const noexcept { return count_; }

  /// Have a job's pieces moved, as far as they are allowed.
  /// @return whether there is room for it.
  bool add(Job& job) noexcept;

  /// Allow all pieces before `pieces`. Called by one thread at a time for a job.
  void allow(Job& job, std::uint64_t pieces) noexcept;

  /// Wait for the pieces at work, and forget the job.
  void remove(Job& job) noexcept;

 private:
  struct State;

  static void* run(void* state) noexcept;

  State* state_ = nullptr;
  int count_ = 0;
};

}  // namespace lanescope::boost
