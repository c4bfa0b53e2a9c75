// How fast the host reads results behind a copy to pinned and to pageable memory, and writes the
// next data behind a copy from it.
//
//     cd benchmarks/model
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o result_reads result_reads.cu
//     ./result_reads
//
// For each size and kind of memory, medians of 41 turns in microseconds: a synchronous copy back,
// a word of each line of 64 bytes read by one thread, all bytes set, a synchronous copy to the GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cuda_check.cuh"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTurns = 41;
constexpr size_t kLine = 64;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(size_t bytes, char* host, char* gpu, const char* memory) {
  std::vector<double> back, read, set, to;
  volatile long sink = 0;
  std::memset(host, 1, bytes);
  for (int turn = 0; turn < kTurns; ++turn) {
    CHECK(cudaMemset(gpu, turn, bytes));
    CHECK(cudaDeviceSynchronize());
    const auto begin = Clock::now();
    CHECK(cudaMemcpy(host, gpu, bytes, cudaMemcpyDeviceToHost));
    const auto copied = Clock::now();
    long sum = 0;
    for (size_t at = 0; at < bytes; at += kLine) sum += *reinterpret_cast<int*>(host + at);
    const auto looked = Clock::now();
    sink = sink + sum;
    const auto again = Clock::now();
    std::memset(host, turn, bytes);
    const auto filled = Clock::now();
    CHECK(cudaMemcpy(gpu, host, bytes, cudaMemcpyHostToDevice));
    back.push_back(microseconds(begin, copied));
    read.push_back(microseconds(copied, looked));
    set.push_back(microseconds(again, filled));
    to.push_back(microseconds(filled, Clock::now()));
  }
  std::printf("%zu KiB %s: d2h %.1f, read a word a line %.1f, memset %.1f, h2d %.1f us\n",
              bytes >> 10, memory, median(back), median(read), median(set), median(to));
}

}  // namespace

int main() {
  for (size_t kib : {64, 256, 1024, 4096, 16384, 65536}) {
    const size_t bytes = kib << 10;
    char *gpu = nullptr, *pinned = nullptr;
    CHECK(cudaMalloc(&gpu, bytes));
    char* pageable = static_cast<char*>(std::malloc(bytes));
    measure(bytes, pageable, gpu, "pageable");
    std::free(pageable);
    CHECK(cudaMallocHost(&pinned, bytes));
    measure(bytes, pinned, gpu, "pinned");
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(gpu));
  }
}
