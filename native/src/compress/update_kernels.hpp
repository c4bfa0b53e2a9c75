#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "compress/device_update.hpp"

namespace lanescope::compress {

// All return at once; arrays are aligned to 16 bytes, and lie in memory of the current device. Each
// throws `Error`.

/// Loads the kernels to the current device, which their first launch does else.
void load_update_kernels();

/// Adds the sum of the checksum of an array to `*sum`, which was zero.
void sum_blocks(const std::byte* data, std::size_t bytes, unsigned long long* sum,
                cudaStream_t stream);

/// Differences of values to those of a base.
void take_differences(const Differing& differing, const std::byte* values, const std::byte* base,
                      std::byte* out, std::size_t bytes, cudaStream_t stream);

/// Values of differences to a base; `out` may be the base or the differences. Nothing is written
/// where a block of them is damaged, or the base is not the one that they were taken to.
void put_differences(const Differing& differing, const std::byte* differences,
                     const std::byte* base, std::byte* out, std::size_t bytes, const Fault* of_slab,
                     const BaseCheck& check, cudaStream_t stream);

}  // namespace lanescope::compress
