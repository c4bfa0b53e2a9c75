#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/piece_threads.hpp"

namespace lanescope {

// Each launches one kernel on `stream`, whose device can reach all addresses, and
// throws `Error`. `table` has an entry for each piece, in pinned or device memory.

/// Copies every piece from its source to its destination.
void launch_copy_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work);

/// Reads every piece where it lies and leaves the sum of item number i in `sums[i]`.
void launch_sum_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work,
                       std::uint64_t* sums);

/// Makes the pattern of every piece and stores it at the piece's destination.
void launch_write_pieces(cudaStream_t stream, const PieceEnds* table, const PieceWork& work,
                         std::uint64_t seed);

/// Adds to `*mismatches` the number of bytes of a destination that are not as they
/// should be, gaps included.
void launch_check_pieces(cudaStream_t stream, const void* destination, const PieceLayout& layout,
                         const PieceSeeds& seeds, unsigned long long* mismatches);

/// Adds to `*mismatches` the number of sums that are wrong.
void launch_check_sums(cudaStream_t stream, const std::uint64_t* sums, const PieceWork& work,
                       std::uint64_t seed, unsigned long long* mismatches);

}  // namespace lanescope
