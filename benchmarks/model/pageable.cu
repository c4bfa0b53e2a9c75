// Copies of pageable host memory: by the size of its pages, whether it was used before, whether
// the calling thread stays on one core, and whether the caches may still hold it.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -o pageable benchmarks/model/pageable.cu
//     pageable > OUT.csv
//
// A row is the median of so many copies, each timed from the call until cudaStreamSynchronize
// returns. "same" copies one buffer again and again, "rotating" goes through 1 GiB. To the host also:
// "fresh" maps new memory for each copy and gives it back afterwards, "kept" keeps it, "dropped" gives
// the pages of a buffer back before each copy.

#include <cuda_runtime.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../cuda_check.cuh"

namespace {

constexpr size_t kAll = size_t{1} << 30;

char* mapped(size_t bytes, int advice) {
  void* found =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) std::exit(2);
  if (advice) madvise(found, bytes, advice);
  return static_cast<char*>(found);
}

double seconds(cudaStream_t stream, char* device, char* host, size_t bytes, bool to_gpu) {
  const auto begin = std::chrono::steady_clock::now();
  CHECK(to_gpu ? cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream)
               : cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void bind(bool one, const cpu_set_t& all) {
  cpu_set_t set = all;
  if (one) {
    CPU_ZERO(&set);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu)
      if (CPU_ISSET(cpu, &all)) {
        CPU_SET(cpu, &set);
        break;
      }
  }
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

int main() {
  cpu_set_t all;
  sched_getaffinity(0, sizeof(all), &all);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  char* device;
  CHECK(cudaMalloc(&device, kAll));
  std::printf("direction,pages,use,bound,bytes,count,median_us,least_us,most_us,gbs\n");
  const struct {
    const char* name;
    int advice;
  } pages[] = {{"default", 0}, {"4k", MADV_NOHUGEPAGE}, {"huge", MADV_HUGEPAGE}};
  const size_t sizes[] = {size_t{4} << 10, size_t{64} << 10, size_t{1} << 20, size_t{8} << 20,
                          size_t{32} << 20, size_t{64} << 20, size_t{256} << 20};
  for (bool one : {true, false})
    for (const auto& page : pages) {
      bind(one, all);
      char* host = mapped(kAll, page.advice);
      std::memset(host, 1, kAll);
      for (bool to_gpu : {true, false})
        for (const std::string use : {"same", "rotating", "fresh", "dropped", "kept"}) {
          if (use != "same" && use != "rotating" && to_gpu) continue;
          for (size_t bytes : sizes) {
            std::vector<double> found;
            size_t at = 0, left = std::min<size_t>(40, std::max<size_t>(8, (size_t{2} << 30) / bytes));
            for (size_t i = 0; i <= left; ++i) {
              char* used = use == "same" ? host : host + at;
              if (use == "fresh" || use == "kept") used = mapped(bytes, page.advice);
              if (use == "dropped") madvise(used, bytes, MADV_DONTNEED);
              at = at + 2 * bytes > kAll ? 0 : at + bytes;
              const double took = seconds(stream, device, used, bytes, to_gpu);
              if (use == "fresh") munmap(used, bytes);
              if (i) found.push_back(took);
            }
            std::sort(found.begin(), found.end());
            const double middle = found[found.size() / 2];
            std::printf("%s,%s,%s,%d,%zu,%zu,%.2f,%.2f,%.2f,%.2f\n", to_gpu ? "h2d" : "d2h",
                        page.name, use.c_str(), one, bytes, found.size(), middle * 1e6,
                        found.front() * 1e6, found.back() * 1e6, bytes / middle * 1e-9);
          }
        }
      munmap(host, kAll);
    }
  return 0;
}
