#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/device_blocks.hpp"
#include "compress/device_group.cuh"

namespace lanescope::compress {

// A decoder follows an encoder that still runs, on another GPU as a rule: for each block there is a
// word in the decoder's memory, which the encoder marks when the block is stored. A group leaves a
// note in shared memory, and a warp of its own waits until the block has crossed the link, and
// marks it: groups that waited themselves would take longer.

/// What a group's note says; else it is 1 + the block that it has stored.
inline constexpr std::uint32_t kNoNote = 0, kOver = ~std::uint32_t{0};

#ifdef LANESCOPE_EMULATED

__device__ inline void leave_note(std::uint32_t*, std::uint32_t) {}

#else

__device__ __forceinline__ std::uint32_t read_note(const std::uint32_t* note) {
  std::uint32_t said;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
               : "=r"(said)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(note)))
               : "memory");
  return said;
}

__device__ __forceinline__ void write_note(std::uint32_t* note, std::uint32_t says) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(note))),
               "r"(says)
               : "memory");
}

/// Waits, shortly as a rule, until the note before was read.
__device__ __forceinline__ void leave_note(std::uint32_t* note, std::uint32_t says) {
  while (read_note(note) != kNoNote) {
  }
  write_note(note, says);
}

/// For the whole system, and with it all that the thread knows to be stored.
__device__ __forceinline__ void mark(unsigned int* word, unsigned int mark) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
               "r"(mark)
               : "memory");
}

/// For who waits for the word alone, and reads nothing else that the thread stored.
__device__ __forceinline__ void mark_alone(unsigned int* word, unsigned int mark) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
               "r"(mark)
               : "memory");
}

__device__ __forceinline__ unsigned int read_mark(const unsigned int* word) {
  unsigned int mark;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
               : "=r"(mark)
               : "l"(__cvta_generic_to_global(word))
               : "memory");
  return mark;
}

/// For the warp that marks what the groups of a CTA have stored, until all of them are over.
__device__ inline void mark_for(GroupShared* groups, int count, const Progress& progress) {
  constexpr unsigned int kPauseNs = 500;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane >= count) return;
  std::uint32_t* note = &groups[lane].note;
  for (std::uint32_t said = read_note(note); said != kOver; said = read_note(note)) {
    if (said == kNoNote) {
      __nanosleep(kPauseNs);
      continue;
    }
    write_note(note, kNoNote);
    mark(progress.stored + (said - 1), progress.mark);
  }
}

/// Lets the groups of an SM begin one after another.
__device__ inline void stagger(int group, int apart_clocks) {
  constexpr unsigned int kPauseNs = 200;
  const long long wait = static_cast<long long>(group) * apart_clocks;
  for (const long long until = clock64() + wait; clock64() < until;) __nanosleep(kPauseNs);
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits for a block; false where it does not come within the patience, or is given up.
__device__ inline bool await(const Arrival& arrival, std::size_t block) {
  constexpr unsigned int kPauseNs = 300;
  if (read_mark(arrival.stored + block) == arrival.mark) return true;
  const std::uint64_t begin = now_ns();
  while (read_mark(arrival.stored + block) != arrival.mark) {
    const unsigned int given_up = read_mark(arrival.given_up);
    if (given_up == arrival.mark || given_up == kGivenUpAll) return false;
    if (now_ns() - begin > arrival.patience_ns) {
      mark(arrival.given_up, arrival.mark);
      return false;
    }
    __nanosleep(kPauseNs);
  }
  return true;
}

#endif

}  // namespace lanescope::compress
