#pragma once

#include <cuda_runtime_api.h>

namespace lanescope {

// Streams that wait for a word in memory: what kernels that still run write can be waited for, also
// those of another GPU. The runtime has no such calls, the driver has.

/// Whether the driver has them, and does them on such a stream and word, which becomes 0.
bool streams_take_values(cudaStream_t stream, unsigned int* word);

/// What is put on the stream from now on waits until the word is `value`, or up to 2^31 beyond it.
/// The word is in memory of the stream's device, which is current, or pinned. Throws `Error`.
void wait_for_value(cudaStream_t stream, const unsigned int* word, unsigned int value);

/// Sets the word when the stream has come so far. Throws `Error`.
void write_value(cudaStream_t stream, unsigned int* word, unsigned int value);

}  // namespace lanescope
