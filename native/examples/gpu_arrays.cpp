// Takes an array of GPU 0 to the host and back, and sends it to GPU 1, compressed on the way:
//
//   gpu_arrays [MiB]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lanescope/compression.hpp"

namespace lc = lanescope::compression;

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw lc::Error(lc::ErrorCode::cuda, status, cudaGetErrorString(status));
}

/// An array in a GPU's memory, and a stream by which it is used.
class GpuArray {
 public:
  GpuArray(int gpu, std::size_t bytes) : gpu_(gpu), bytes_(bytes) {
    check(cudaSetDevice(gpu_));
    check(cudaMalloc(&data_, bytes_));
    check(cudaStreamCreate(&stream_));
  }
  ~GpuArray() {
    cudaSetDevice(gpu_);
    cudaStreamDestroy(stream_);
    cudaFree(data_);
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  cudaStream_t stream() const { return stream_; }

  void put(const std::vector<std::byte>& values) const {
    check(cudaMemcpyAsync(data_, values.data(), bytes_, cudaMemcpyHostToDevice, stream_));
  }
  std::vector<std::byte> get(std::size_t bytes) const {
    std::vector<std::byte> values(bytes);
    check(cudaMemcpyAsync(values.data(), data_, bytes, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    return values;
  }

 private:
  int gpu_;
  std::size_t bytes_;
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// A rule would send the first ones as they are, to time them.
const lc::ChannelOptions kAlways{.decider = std::make_shared<lc::Always>(true)};

std::vector<std::byte> waves(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  auto* each = reinterpret_cast<float*>(values.data());
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
    each[i] = std::sin(static_cast<float>(i % 65536) * 1e-4F);
  return values;
}

void require_same(const std::vector<std::byte>& one, const std::vector<std::byte>& other,
                  const char* what) {
  if (one != other)
    throw lc::Error(lc::ErrorCode::damaged, 0, std::string(what) + " came out otherwise");
}

void tell(const char* what, const lc::Ticket& ticket) {
  const lc::Outcome outcome = ticket.wait();
  std::printf("%s: %zu bytes as %zu\n", what, outcome.bytes, outcome.wire_bytes);
}

void compress_there(const std::vector<std::byte>& values) {
  const GpuArray array(0, values.size()), back(0, values.size());
  const GpuArray stream(0, lc::most_bytes(values.size()));
  array.put(values);
  const lc::Options options{.dtype = lc::Dtype::float32};
  const std::size_t length =
      lc::compress_on_gpu(array.bytes(), stream.bytes(), options, array.stream());
  require_same(stream.get(length), lc::compress(values, options), "the stream of the GPU");
  lc::decompress_on_gpu(stream.bytes().first(length), back.bytes(), stream.stream());
  require_same(back.get(values.size()), values, "the array");
  std::printf("compressed on the GPU: %zu bytes as %zu\n", values.size(), length);
}

void offload_and_restore(const std::vector<std::byte>& values) {
  lc::HostChannel channel(0, kAlways);
  const GpuArray array(0, values.size()), back(0, values.size());
  array.put(values);
  const auto [parcel, ticket] =
      channel.offload(array.bytes(), lc::Dtype::float32, array.stream(), "waves");
  tell("offloaded", ticket);
  tell("restored", channel.restore(parcel, back.bytes(), back.stream()));
  require_same(back.get(values.size()), values, "the array");
}

void send(const std::vector<std::byte>& values) {
  lc::GpuChannel channel(0, 1, kAlways);
  const GpuArray array(0, values.size()), there(1, values.size());
  array.put(values);
  tell("sent", channel.send(array.bytes(), there.bytes(), lc::Dtype::float32, array.stream(),
                            there.stream(), "waves"));
  require_same(there.get(values.size()), values, "the array");
}

void run(std::size_t mib) {
  int gpus = 0;
  const cudaError_t status = cudaGetDeviceCount(&gpus);
  if (status != cudaSuccess)
    throw lc::Error(lc::ErrorCode::cuda, status,
                    std::string("there is no GPU to be used: ") + cudaGetErrorString(status));
  const std::vector<std::byte> values = waves(mib << 20);
  compress_there(values);
  offload_and_restore(values);
  if (gpus > 1)
    send(values);
  else
    std::printf("nothing was sent: there is one GPU only\n");
}

}  // namespace

int main(int count, char** words) {
  try {
    run(count > 1 ? std::strtoul(words[1], nullptr, 10) : 64);
  } catch (const lc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
