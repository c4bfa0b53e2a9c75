#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "calls/own_thread.hpp"
#include "calls/recorder.hpp"

namespace lanescope::calls {

/// Where an address lies: CUPTI's kind of memory, and the process's number of the GPU or -1.
struct MemoryPlace {
  std::uint8_t kind;
  std::int16_t device;
};

constexpr std::uint8_t kPageable = 1, kPinned = 2, kDevice = 3, kArray = 4, kManaged = 5;

/// Do what the first question of this thread would do else: look the driver up, take memory.
void prepare_places() noexcept;

/// What a thread remembers of a page. Pages whose numbers end alike share a set, a cache line.
struct Page {
  std::uint64_t number;   ///< and 1: nothing is remembered in zeros
  std::uint32_t changes;  ///< `Recording::place_changes` when the driver was asked
  std::uint8_t uses;      ///< since then; after 255 it is asked again
  std::uint8_t kind;
  std::int16_t device;
};
struct alignas(64) PageSet {
  static constexpr std::size_t kPages = 4;
  std::array<Page, kPages> pages;
};

constexpr std::size_t kSetBits = 7;  ///< of the number of a thread's sets
constexpr int kPageBits = 12;

/// @return the set of a page's number among those of `Memory`, which begins with them.
inline PageSet& set_of(Memory& memory, std::uint64_t number) noexcept {
  // Buffers that lie a power of two apart are common.
  return reinterpret_cast<PageSet*>(&memory)[number * 0x9E3779B97F4A7C15 >> (64 - kSetBits)];
}

/// What `place_of` does where that is not remembered, or was for long.
MemoryPlace requested_place(std::uint64_t address) noexcept;

/// @return where `address` lies, as the driver says. Each thread remembers the answers for some
/// pages and allocations, and asks again after `places_changed`, or some uses: memory of the C
/// library's is freed and comes back without a call of the driver's.
inline MemoryPlace place_of(std::uint64_t address) noexcept {
  if (own_thread.memory == nullptr) [[unlikely]]
    return requested_place(address);
  const std::uint64_t number = (address >> kPageBits) + 1;
  auto& pages = set_of(*own_thread.memory, number).pages;
  // by sums: a branch would be predicted wrongly for every other page, which takes longer than all
  static_assert(PageSet::kPages == 4);
  const auto has = [&](std::size_t i) {
    return static_cast<std::size_t>(pages[i].number == number);
  };
  Page& page = pages[(has(1) + has(2) * 2 + has(3) * 3) % PageSet::kPages];
  const std::uint32_t changes = recording.place_changes.load(std::memory_order_relaxed);
  const bool is_known =
      (page.number == number) & (page.changes == changes) & (page.uses < UINT8_MAX);
  if (!is_known) [[unlikely]]
    return requested_place(address);
  ++page.uses;
  return {page.kind, page.device};
}

/// Host memory was pinned, or is no longer.
void places_changed() noexcept;

/// @return the GPU of the thread's context, -1: none.
std::int16_t current_device() noexcept;

/// What `stream_number` does for another stream than the thread's latest.
std::uint64_t requested_stream_number(const void* stream) noexcept;

/// @return a number that tells streams of the process apart.
inline std::uint64_t stream_number(const void* stream) noexcept {
  if (stream != own_thread.stream) [[unlikely]]
    return requested_stream_number(stream);
  return own_thread.stream_id;
}

}  // namespace lanescope::calls
