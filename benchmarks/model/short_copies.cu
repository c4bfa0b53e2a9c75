// Many short copies of pageable memory by a program that does nothing else between them.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -o short_copies benchmarks/model/short_copies.cu
//     short_copies COPIES BYTES
//
// Prints the median seconds of a step: so many cudaMemcpy to the GPU, and a cudaDeviceSynchronize.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../cuda_check.cuh"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t count = std::strtoull(argv[1], nullptr, 10);
  const size_t bytes = std::strtoull(argv[2], nullptr, 10);
  constexpr int kWarming = 20;
  constexpr int kSteps = 300;
  std::vector<std::vector<char>> host(count, std::vector<char>(bytes, 1));
  std::vector<void*> device(count);
  for (auto& one : device) CHECK(cudaMalloc(&one, bytes));
  std::vector<double> took;
  for (int step = 0; step < kWarming + kSteps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < count; ++i)
      CHECK(cudaMemcpy(device[i], host[i].data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (step >= kWarming) took.push_back(passed.count());
  }
  std::sort(took.begin(), took.end());
  std::printf("%.9f\n", took[took.size() / 2]);
}
