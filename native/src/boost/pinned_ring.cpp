#include "boost/pinned_ring.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "boost/cpus.hpp"
#include "boost/driver.hpp"
#include "boost/settings.hpp"
#include "boost/tally.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kSegmentBytes = PinnedRing::kSegmentBytes;
constexpr int kPreferred = 1;  // MPOL_PREFERRED: elsewhere where that node has no memory

/// @return the bytes that the process may still pin.
std::atomic<std::size_t>& room() noexcept {
  static std::atomic<std::size_t> left{ring_within_limits(settings().ring)};
  return left;
}

/// Take a segment's bytes from them.
/// @return whether there were so many left.
bool take_room() noexcept {
  std::size_t before = room().load();
  while (before >= kSegmentBytes)
    if (room().compare_exchange_weak(before, before - kSegmentBytes)) return true;
  return false;
}

/// @return new memory that the current context has pinned; null where there is none. A child by
/// fork does not have it: it would get its own copy of what is pinned.
char* pinned_segment(int node) noexcept {
  void* memory =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  constexpr int kMostNodes = 8 * sizeof(unsigned long);
  if (node >= 0 && node < kMostNodes) {
    const unsigned long nodes = 1UL << node;
    syscall(SYS_mbind, memory, kSegmentBytes, kPreferred, &nodes, kMostNodes, 0);
  }
  madvise(memory, kSegmentBytes, MADV_HUGEPAGE);
  madvise(memory, kSegmentBytes, MADV_DONTFORK);
  if (driver().cuMemHostRegister(memory, kSegmentBytes, 0) == CUDA_SUCCESS)
    return static_cast<char*>(memory);
  munmap(memory, kSegmentBytes);
  return nullptr;
}

}  // namespace

bool PinnedRing::grow(std::size_t wanted, int node) noexcept {
  while (bytes() < wanted && segments_ < kMostSegments && !is_full_) {
    is_full_ = !take_room();
    if (is_full_) break;
    char* memory = pinned_segment(node);
    if (memory == nullptr) {
      room().fetch_add(kSegmentBytes);
      is_full_ = true;
      break;
    }
    segment_[segments_++] = memory;
    tally().ring_bytes.fetch_add(kSegmentBytes, std::memory_order_relaxed);
  }
  return segments_ > 0;
}

void PinnedRing::forget() noexcept {
  for (std::size_t i = 0; i < segments_; ++i) munmap(segment_[i], kSegmentBytes);
  room().fetch_add(segments_ * kSegmentBytes);
  tally().ring_bytes.fetch_sub(segments_ * kSegmentBytes, std::memory_order_relaxed);
  segments_ = 0;
  is_full_ = false;
}

}  // namespace lanescope::boost
