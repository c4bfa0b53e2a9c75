#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/format.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Memory of the current device that lives as long as this, in the order of a stream; owner.
class StreamMemory {
 public:
  /// Throws `Error`.
  StreamMemory(std::size_t bytes, cudaStream_t stream) : stream_(stream) {
    void* data = nullptr;
    if (bytes > 0) check(cudaMallocAsync(&data, bytes, stream), "cudaMallocAsync");
    data_ = static_cast<std::byte*>(data);
  }
  ~StreamMemory() {
    if (data_ != nullptr) forgive(cudaFreeAsync(data_, stream_));
  }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  template <typename T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  cudaStream_t stream_;
};

/// Copies, in the order of a stream. Throws `Error`.
inline void copy_behind(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

/// Sets bytes, in the order of a stream. Throws `Error`.
inline void set_behind(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemsetAsync(at, value, bytes, stream), "cudaMemsetAsync");
}

/// Throws `Error`.
inline void wait_for(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// Brings bytes to the host, and waits for them. Throws `Error`.
inline std::vector<std::byte> fetch(const std::byte* from, std::size_t bytes, cudaStream_t stream) {
  std::vector<std::byte> got(bytes);
  copy_behind(got.data(), from, bytes, stream);
  wait_for(stream);
  return got;
}

/// Memory as it is if kernels can read it so, else a copy that begins where they can.
class AlignedInput {
 public:
  AlignedInput(std::span<const std::byte> from, cudaStream_t stream) : data_(from.data()) {
    if (is_aligned(data_)) return;
    copy_.emplace(padded(from.size()), stream);
    copy_behind(copy_->data(), from.data(), from.size(), stream);
    data_ = copy_->data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  std::optional<StreamMemory> copy_;
};

}  // namespace lanescope::compress
