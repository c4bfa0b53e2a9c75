#pragma once

#include "compress/choosing.hpp"
#include "compress/stream_memory.hpp"

namespace lanescope::compress {

/// The sample, by which a codec is chosen, of an array in the current device's memory, behind what
/// is on a stream. Throws `Error`.
inline std::vector<std::byte> sample_on_device(std::span<const std::byte> array,
                                               cudaStream_t stream) {
  auto sample = sample_of(array, [stream](std::byte* to, std::span<const std::byte> part) {
    copy_behind(to, part.data(), part.size(), stream);
  });
  wait_for(stream);
  return sample;
}

}  // namespace lanescope::compress
