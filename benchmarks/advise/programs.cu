// Two CUDA C++ programs as people write them, and as an expert would change them, for the closed
// loop of advise; see closed_loop.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o programs benchmarks/advise/programs.cu
//     programs filter|search before|after [STEPS]
//
// filter: 256 MiB of pageable memory to the GPU, a kernel, and back; after: pinned, 16 parts on
// four streams. search: 200 kernels, each of whose 4 B are copied back and looked at before the
// next; after: the GPU keeps them, and they are copied back together.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

__global__ void smooth(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float value = in[i];
  for (int k = 0; k < 32; ++k) value = value * 0.75f + 0.25f * __sinf(value);
  out[i] = value;
}

__global__ void probe(const float* values, int count, int number, float* found) {
  __shared__ float most[256];
  float mine = -1e30f;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    mine = fmaxf(mine, values[i] * (1 + number % 7));
  most[threadIdx.x] = mine;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) most[threadIdx.x] = fmaxf(most[threadIdx.x], most[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *found = most[0];
}

constexpr int kValues = 64 << 20, kParts = 16, kStreams = 4, kProbes = 200, kProbed = 1 << 14;

struct Memory {
  float *in, *out, *device_in, *device_out;
  std::vector<cudaStream_t> streams;
};

double filter(const Memory& m, bool after) {
  const int parts = after ? kParts : 1, count = kValues / parts;
  const size_t bytes = sizeof(float) * count;
  for (int part = 0; part < parts; ++part) {
    const cudaStream_t s = m.streams[part % kStreams];
    const size_t at = static_cast<size_t>(part) * count;
    if (after)
      CHECK(cudaMemcpyAsync(m.device_in + at, m.in + at, bytes, cudaMemcpyHostToDevice, s));
    else
      CHECK(cudaMemcpy(m.device_in, m.in, bytes, cudaMemcpyHostToDevice));
    smooth<<<(count + 255) / 256, 256, 0, s>>>(m.device_in + at, m.device_out + at, count);
    if (after) {
      CHECK(cudaMemcpyAsync(m.out + at, m.device_out + at, bytes, cudaMemcpyDeviceToHost, s));
    } else {
      CHECK(cudaStreamSynchronize(s));
      CHECK(cudaMemcpy(m.out, m.device_out, bytes, cudaMemcpyDeviceToHost));
    }
  }
  CHECK(cudaDeviceSynchronize());
  double sum = 0;
  for (int i = 0; i < kValues; i += 4096) sum += m.out[i];
  return sum;
}

double search(const Memory& m, bool after) {
  double sum = 0;
  for (int number = 0; number < kProbes; ++number) {
    float* found = after ? m.device_out + number : m.device_out;
    probe<<<1, 256, 0, m.streams[0]>>>(m.device_in, kProbed, number, found);
    if (after) continue;
    CHECK(cudaMemcpyAsync(m.out, found, sizeof(float), cudaMemcpyDeviceToHost, m.streams[0]));
    CHECK(cudaStreamSynchronize(m.streams[0]));
    sum += m.out[0];
  }
  if (!after) return sum;
  CHECK(cudaMemcpyAsync(m.out, m.device_out, sizeof(float) * kProbes, cudaMemcpyDeviceToHost,
                        m.streams[0]));
  CHECK(cudaStreamSynchronize(m.streams[0]));
  for (int number = 0; number < kProbes; ++number) sum += m.out[number];
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_filter = argc > 1 && !std::strcmp(argv[1], "filter");
  const bool is_search = argc > 1 && !std::strcmp(argv[1], "search");
  const bool after = argc > 2 && !std::strcmp(argv[2], "after");
  if (!is_filter && !is_search)
    return std::fprintf(stderr, "programs filter|search before|after [STEPS]\n"), 2;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 40;
  const size_t bytes = sizeof(float) * kValues;
  Memory m{host(after, bytes), host(after, bytes), nullptr, nullptr, {}};
  CHECK(cudaMalloc(&m.device_in, bytes));
  CHECK(cudaMalloc(&m.device_out, bytes));
  for (int i = 0; i < kValues; ++i) m.in[i] = static_cast<float>(i % 1013) / 1013;
  CHECK(cudaMemcpy(m.device_in, m.in, bytes, cudaMemcpyHostToDevice));
  for (int i = 0; i < kStreams; ++i) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    m.streams.push_back(stream);
  }
  return time_steps(argv[1], after, steps,
                    [&] { return is_filter ? filter(m, after) : search(m, after); });
}
