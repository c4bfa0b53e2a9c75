#pragma once

#include <cstdint>

namespace lanescope::calls {

/// Where an address lies: CUPTI's kind of memory, and the process's number of the GPU or -1.
struct MemoryPlace {
  std::uint8_t kind;
  std::int16_t device;
};

constexpr std::uint8_t kPageable = 1, kPinned = 2, kDevice = 3, kArray = 4, kManaged = 5;

/// Do what the first question of this thread would do else: look the driver up, take memory.
void prepare_places() noexcept;

/// @return where `address` lies, as the driver says. Each thread remembers the answers for some
/// pages and allocations, and asks again after `places_changed`, or some uses: memory of the C
/// library's is freed and comes back without a call of the driver's.
MemoryPlace place_of(std::uint64_t address) noexcept;

/// Host memory was pinned, or is no longer.
void places_changed() noexcept;

/// @return the GPU of the thread's context, -1: none.
std::int16_t current_device() noexcept;

/// @return a number that tells streams of the process apart.
std::uint64_t stream_number(const void* stream) noexcept;

}  // namespace lanescope::calls
