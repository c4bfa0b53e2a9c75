#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compress/device_blocks.hpp"
#include "compress/strip_codec.hpp"

namespace lanescope::compress {

/// What an array is encoded from and to.
struct Encoding {
  Values values;
  std::size_t bytes;
  Sink sink;
  Settings settings;
  std::uint32_t value_bytes;
};

/// What an array is decoded from and to.
struct Decoding {
  const Entry* entries;
  const std::byte* payloads;
  std::size_t room;
  std::byte* out;
  std::size_t bytes;
  Fault* fault;
  Settings settings;
  std::uint32_t value_bytes;
  Binding binding;
  Arrival arrival;
  Chosen chosen = {};
  PutBase put = {};
};

struct Launch {
  unsigned int ctas, threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

/// A kernel that does a job, and how it is laid out over an SM.
template <typename Job>
struct Kernel {
  const void* entry = nullptr;   ///< As the CUDA runtime names it; null where there is none.
  int groups = 0;                ///< Of warps in an SM, at most.
  std::size_t shared_bytes = 0;  ///< Of a group.
  bool alone = false;            ///< A group is a CTA by itself.
  void (*launch)(const Launch& launch, const Job& job) = nullptr;
  int followed_groups = 0;  ///< Of an encoder: so many at most where somebody follows.
};

/// The kernel of a codec that encodes (`Job` is `Encoding`) or decodes values of a type. Each codec
/// and job has a file, written by cmake/codecs.cmake: these compile at the same time, and a change
/// of one leaves the others alone. Updates have kernels of their own, which also read a base.
template <typename Job, Codec codec>
Kernel<Job> kernel_of(Dtype dtype, bool update);

}  // namespace lanescope::compress
