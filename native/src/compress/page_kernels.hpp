#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "compress/page_parts.hpp"

namespace lanescope::compress {

/// As many CTAs as fill an SM's share of its device's memory, of all devices that there are.
inline constexpr int kPageCtas = 2048;
/// As many as fill PCIe 5.0 (8 of 512 threads do, by measurement on H200s), or NVLink 4 (64).
inline constexpr int kPageCtasToHost = 32;
inline constexpr int kPageCtasToPeer = 192;

/// Copies parts, whose table kernels can read, on so many CTAs at most. Returns at once. Throws
/// `Error`.
void launch_copy_parts(const PagePart* parts, std::size_t count, int ctas, cudaStream_t stream);

/// Copies one part, on one CTA. Returns at once. Throws `Error`.
void launch_copy_part(const PagePart& part, cudaStream_t stream);

}  // namespace lanescope::compress
