#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compress/device_kernels.hpp"
#include "compress/format.hpp"

namespace lanescope::compress {

// Our part of blocks that nvCOMP codes. What is wrong with blocks is kept in a word in the device's
// memory: the number of the lowest one in the upper half, nvCOMP's status of it in the lower one;
// all ones where nothing is.
inline constexpr unsigned long long kNothingWrong = ~0ULL;

/// What becomes of an array of which nvCOMP has coded the blocks. All pointers are to memory of the
/// current device; chunks lie where payloads begin, 16 bytes on.
struct Settling {
  const std::byte* data;
  std::size_t bytes;
  std::uint32_t value_bytes;
  const std::size_t* chunk_bytes;  ///< What nvCOMP made of each block that it was given.
  const int* statuses;             ///< 0 where that went well.
  std::size_t chunks;              ///< How many of the first blocks it was given.
  std::uint32_t version;           ///< nvCOMP's.
  Codec codec;
  Dtype dtype;
  Entry* entries;
  std::byte* payloads;  ///< Aligned to 16; a slot for each block.
  std::size_t slot_bytes;
  unsigned long long* used;    ///< 0 before; then the bytes of all payloads, each padded.
  unsigned long long* failed;  ///< Blocks that nvCOMP could not code.
  Binding binding;
};

/// What is to be done with a stream before nvCOMP decodes its chunks.
struct Checking {
  const Entry* entries;
  const std::byte* payloads;  ///< Aligned to 16.
  std::size_t room;           ///< Of payloads.
  Codec codec;
  Dtype dtype;
  std::uint32_t value_bytes;
  std::byte* out;  ///< Aligned to 16.
  std::size_t bytes;
  unsigned long long* wrong;  ///< Blocks that are not as they were.
  Binding binding;
};

/// Finds for each block how it is stored, and makes its entry and its payload: of one value, of
/// nvCOMP's chunk, or as it is where that is no longer. Returns at once. Throws `Error`.
void settle_blocks(const Settling& settling, cudaStream_t stream);

/// Puts blocks back that nvCOMP did not code, and finds whether those that it did are as they
/// were. Returns at once. Throws `Error`.
void check_blocks(const Checking& checking, cudaStream_t stream);

/// Finds whether what nvCOMP decoded, the blocks of these numbers, is what was compressed. Returns
/// at once. Throws `Error`.
void check_decoded(const Checking& checking, const std::uint32_t* blocks, std::size_t count,
                   const std::size_t* out_bytes, const int* statuses, cudaStream_t stream);

}  // namespace lanescope::compress
