#pragma once

#include <cstddef>

#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

// Work of several streams in order. A stream may be the caller's, and null: the device's default
// stream, so that device has to be current.

inline Event event_on(int device, Timing timing) {
  const ScopedDevice scope(device);
  return Event(timing);
}

/// Both of the same device.
inline void record(const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

/// What is put on the stream from now on waits for what the event was last recorded behind.
inline void let_wait(cudaStream_t stream, const Event& event) {
  check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
}

/// Makes memory of a device zeros, and waits for that.
inline void zero(int device, void* memory, std::size_t bytes) {
  const ScopedDevice scope(device);
  const Stream stream(device);
  check(cudaMemsetAsync(memory, 0, bytes, stream.get()), "cudaMemsetAsync");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
}

}  // namespace lanescope::compress
