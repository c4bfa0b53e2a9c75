#pragma once

#include <cstddef>
#include <cstdint>

#include "host_device.hpp"

namespace lanescope {

/// Which chunks one block of a copy kernel copies, and in which order: the same chunk of each
/// way in turn, `repeats` times, and then the block's next one, over and over.
struct ChunkCursor {
  std::size_t first;  ///< Offset of the block's first chunk; before `end`.
  std::size_t step;   ///< From one of the block's chunks to the next.
  std::size_t end;
  int ways, repeats;
  std::size_t offset = first;
  int way = 0, repeat = 0;

  LANESCOPE_HOST_DEVICE std::uint32_t bytes(std::size_t chunk) const {
    const std::size_t there = end - offset;
    return static_cast<std::uint32_t>(there < chunk ? there : chunk);
  }

  /// Chunks of a loop, which is as many as there are: with repeats the same few of them.
  LANESCOPE_HOST_DEVICE long long per_loop() const {
    return static_cast<long long>((end - first + step - 1) / step) * ways;
  }

  LANESCOPE_HOST_DEVICE void advance() {
    if (++way < ways) return;
    way = 0;
    if (++repeat < repeats) return;
    repeat = 0;
    offset += step;
    if (offset >= end) offset = first;
  }
};

}  // namespace lanescope
