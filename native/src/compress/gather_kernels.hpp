#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compress/device_kernels.hpp"

namespace lanescope::compress {

/// The table of blocks of a stream in the device's memory, and what the checksum of its header is
/// made of besides.
struct Front {
  Descriptor* descriptors;
  std::uint32_t* checksum;
  std::uint64_t sum;    ///< Of the parts of all but the descriptors.
  std::uint64_t place;  ///< Of the first descriptor.
};

/// Puts the descriptors of entries side by side, and the checksum over them to its place, and finds
/// how far from the first one each payload begins in a stream, which has them in the order of
/// blocks. Returns at once. Throws `Error`.
void order_entries(const Entry* entries, std::size_t blocks, const Front& front,
                   std::uint64_t* offsets, cudaStream_t stream);

/// Copies each payload to its place. Returns at once. Throws `Error`.
void gather_payloads(const Entry* entries, std::size_t blocks, const std::byte* payloads,
                     const std::uint64_t* offsets, std::byte* out, cudaStream_t stream);

}  // namespace lanescope::compress
