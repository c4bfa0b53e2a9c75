// What copies cost that follow each other on one stream, as the arrays of a round do, and each on a
// stream of its own.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -o one_stream benchmarks/model/one_stream.cu
//     one_stream > one-stream.csv
//
// A time is that from the first call until cudaDeviceSynchronize returns, in microseconds; `queued`
// is that between two events on the GPU, of copies that were all handed over before the first began
// (on one stream only). A row is one round: the median of its samples, and their 10th and 90th
// percentile.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    const cudaError_t status = (call);                                                   \
    if (status != cudaSuccess)                                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)), std::exit(1); \
  } while (0)

namespace {

constexpr int kMostCopies = 16, kSamples = 60, kRounds = 4;
constexpr size_t kMostBytes = size_t{8} << 20;
constexpr unsigned long long kHeldNanoseconds = 150'000;

__global__ void nothing() {}

__global__ void hold(unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}

struct Pattern {
  int in, out;
  bool kernel, one_stream;
};

char *g_host_in, *g_host_out, *g_in, *g_out;
cudaStream_t g_streams[2 * kMostCopies];

void submit(const Pattern& p, size_t bytes) {
  int next = 0;
  const auto stream = [&] { return g_streams[p.one_stream ? 0 : next++]; };
  for (int i = 0; i < p.in; ++i)
    CHECK(cudaMemcpyAsync(g_in + i * kMostBytes, g_host_in + i * kMostBytes, bytes,
                          cudaMemcpyHostToDevice, stream()));
  if (p.kernel) nothing<<<1, 1, 0, stream()>>>();
  for (int i = 0; i < p.out; ++i)
    CHECK(cudaMemcpyAsync(g_host_out + i * kMostBytes, g_out + i * kMostBytes, bytes,
                          cudaMemcpyDeviceToHost, stream()));
}

double whole(const Pattern& p, size_t bytes) {
  CHECK(cudaDeviceSynchronize());
  const auto begin = std::chrono::steady_clock::now();
  submit(p, bytes);
  CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double queued(const Pattern& p, size_t bytes, cudaEvent_t begin, cudaEvent_t end) {
  hold<<<1, 1, 0, g_streams[0]>>>(kHeldNanoseconds);
  CHECK(cudaEventRecord(begin, g_streams[0]));
  submit(p, bytes);
  CHECK(cudaEventRecord(end, g_streams[0]));
  CHECK(cudaDeviceSynchronize());
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  return ms * 1e3;
}

void print(const char* what, int round, const Pattern& p, size_t bytes, std::vector<double> found) {
  std::sort(found.begin(), found.end());
  const auto at = [&](double share) {
    return found[static_cast<size_t>(share * (found.size() - 1))];
  };
  std::printf("%s,%d,%d,%d,%d,%d,%zu,%.2f,%.2f,%.2f\n", what, round, p.in, p.out, p.kernel,
              p.one_stream, bytes, at(0.5), at(0.1), at(0.9));
}

}  // namespace

int main() {
  CHECK(cudaHostAlloc(&g_host_in, kMostCopies * kMostBytes, 0));
  CHECK(cudaHostAlloc(&g_host_out, kMostCopies * kMostBytes, 0));
  CHECK(cudaMalloc(&g_in, kMostCopies * kMostBytes));
  CHECK(cudaMalloc(&g_out, kMostCopies * kMostBytes));
  for (auto& stream : g_streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<Pattern> patterns;
  for (int count : {1, 2, 3, 4, 8, 16}) {
    for (bool one_stream : {true, false}) {
      patterns.push_back({count, 0, false, one_stream});
      patterns.push_back({0, count, false, one_stream});
    }
  }
  for (int in : {1, 2, 3})
    for (int out : {1, 2, 3}) patterns.push_back({in, out, true, true});
  patterns.push_back({1, 0, true, true});
  patterns.push_back({2, 0, true, true});
  patterns.push_back({0, 1, true, true});
  patterns.push_back({0, 2, true, true});
  std::printf("what,round,in,out,kernel,one_stream,bytes,us,p10,p90\n");
  for (int round = 0; round < kRounds; ++round)
    for (size_t bytes :
         {size_t{1} << 10, size_t{16} << 10, size_t{64} << 10, size_t{160} << 10, size_t{340} << 10,
          size_t{512} << 10, size_t{1} << 20, size_t{2} << 20, size_t{4} << 20, size_t{8} << 20})
      for (const Pattern& p : patterns) {
        std::vector<double> times, alone;
        for (int i = 0; i < kSamples + 5; ++i) {
          const double took = whole(p, bytes);
          if (i >= 5) times.push_back(took);
        }
        print("whole", round, p, bytes, times);
        if (!p.one_stream) continue;
        for (int i = 0; i < kSamples / 2; ++i) alone.push_back(queued(p, bytes, begin, end));
        print("queued", round, p, bytes, alone);
      }
  return 0;
}
