#pragma once

#include "compress/update_kernels.hpp"
#include "cuda/cuda_handles.hpp"
#include "pretended_cuda.hpp"

// Kernels of updates over a pretended CUDA runtime: they do what their threads do, one thread after
// the other. One file of a program includes this.

namespace lanescope::compress {

inline constexpr std::size_t kUpdateThreads = 3;

void load_update_kernels() {}

void sum_blocks(const std::byte* data, std::size_t bytes, unsigned long long* sum,
                cudaStream_t stream) {
  check(pretended::called_for(stream), "sum_blocks");
  const std::size_t threads = 1 + pretended::draw() % 100;  // it may take longer than all else
  for (std::size_t thread = 0; thread < threads; ++thread)
    pretended::put(stream, [=] { *sum += sum_share({thread, threads}, data, bytes); });
}

void take_differences(const Differing& differing, const std::byte* values, const std::byte* base,
                      std::byte* out, std::size_t bytes, cudaStream_t stream) {
  check(pretended::called_for(stream), "take_differences");
  for (std::size_t thread = 0; thread < kUpdateThreads; ++thread)
    pretended::put(
        stream, [=] { take_share({thread, kUpdateThreads}, differing, values, base, out, bytes); });
}

void put_differences(const Differing& differing, const std::byte* differences,
                     const std::byte* base, std::byte* out, std::size_t bytes, const Fault* of_slab,
                     const BaseCheck& base_check, cudaStream_t stream) {
  check(pretended::called_for(stream), "put_differences");
  for (std::size_t thread = 0; thread < kUpdateThreads; ++thread)
    pretended::put(stream, [=] {
      const Share share{thread, kUpdateThreads};
      if (may_put(share, of_slab, base_check))
        put_share(share, differing, differences, base, out, bytes);
    });
}

}  // namespace lanescope::compress
