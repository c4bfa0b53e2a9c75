#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compress/device_blocks.hpp"
#include "compress/strip_codec.hpp"

namespace lanescope::compress {

// The kernels that code and decode strips of a class; `NoStrip` is that of blocks that are not
// coded. Each codec and direction has a file, encode_CODEC.cu and decode_CODEC.cu: these compile at
// the same time, and a change of one leaves the others alone.

/// What an array is encoded from and to.
struct Encoding {
  const std::byte* data;
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
};

struct Launch {
  unsigned int ctas, threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

template <typename Strip>
struct EncodeKernel {
  static const void* entry();  ///< As the CUDA runtime names it.
  static void launch(const Launch& launch, const Encoding& encoding);
};

template <typename Strip>
struct DecodeKernel {
  static const void* entry();  ///< As the CUDA runtime names it.
  static void launch(const Launch& launch, const Decoding& decoding);
};

}  // namespace lanescope::compress
