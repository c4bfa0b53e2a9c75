#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lanescope {

/// Loads the gate's kernel onto the current device, as `preload_sm_copy` does its own.
void preload_gate();

/// Launches a kernel that occupies `stream` until `*open` is no longer 0, or until
/// `timeout_ns` have passed; then it sets `*timed_out`. Both words are pinned host
/// memory as the device sees it. Throws `Error`.
void launch_gate(cudaStream_t stream, const volatile int* open, volatile int* timed_out,
                 std::uint64_t timeout_ns);

/// Launches a kernel that fills memory the stream's device can reach; `data` is
/// 8-byte aligned. Throws `Error`.
void launch_fill(cudaStream_t stream, void* data, std::size_t bytes, std::uint64_t seed);

/// Launches a kernel that adds the number of wrong bytes to `*mismatches`, a
/// counter in memory of the stream's device. With `period` bytes, a multiple of 8, the pattern
/// begins anew after so many. Throws `Error`.
void launch_check(cudaStream_t stream, const void* data, std::size_t bytes, std::uint64_t seed,
                  unsigned long long* mismatches, std::size_t period = 0);

/// Launches a kernel that adds the sum of the pattern's words (of a last part, of its bytes) to
/// `*sum`, which is in memory of the stream's device. Throws `Error`.
void launch_pattern_sum(cudaStream_t stream, std::size_t bytes, std::uint64_t seed,
                        unsigned long long* sum);

}  // namespace lanescope
