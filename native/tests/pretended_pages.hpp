#pragma once

// Kernels that copy pages, and decode chosen blocks, over the pretended CUDA runtime.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "compress/device_kernels.hpp"
#include "compress/page_kernels.hpp"
#include "cuda/cuda_handles.hpp"
#include "pretended_cuda.hpp"

namespace lanescope::compress {

inline constexpr unsigned kThreads = 3;

void launch_copy_part(const PagePart& part, cudaStream_t stream) {
  check(pretended::called_for(stream), "launch_copy_part");
  pretended::put(stream, [=] {
    for (unsigned thread = 0; thread < kThreads; ++thread) copy_part(part, thread, kThreads);
  });
}

/// CTAs come in any order; the table is read when the kernel runs.
void launch_copy_parts(const PagePart* parts, std::size_t count, int ctas, cudaStream_t stream) {
  check(pretended::called_for(stream), "launch_copy_parts");
  const std::size_t grid = std::min(count, static_cast<std::size_t>(ctas));
  std::vector<std::size_t> order(grid);
  for (std::size_t i = 0; i < grid; ++i) order[i] = i;
  for (std::size_t i = 0; i < grid; ++i)
    std::swap(order[i], order[i + pretended::draw() % (grid - i)]);
  for (const std::size_t cta : order)
    pretended::put(stream, [=] {
      for (unsigned thread = 0; thread < kThreads; ++thread)
        copy_parts(parts, count, cta, grid, thread, kThreads);
    });
}

}  // namespace lanescope::compress
