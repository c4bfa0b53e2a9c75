// Three CUDA C++ programs for the closed loop of advise, the sixth set; see sixth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o sixth benchmarks/advise/sixth.cu
//     sixth reader|fit|writer before|after [STEPS]
//
// reader: chunks of records read into two pinned buffers, each sent and worked on by a stream of
// its own, but all waited for before the next is read; after: only the buffer that is filled.
// fit: a model of five numbers changed by the host as its misfit, computed on the GPU, wants;
// after: the kernel reads model and writes misfit in mapped host memory. writer: a thread copies
// the last snapshot to memory of malloc and looks at it while the next kernels run, which takes
// longer: nothing is to be gained; after: pinned memory.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256;

template <class T>
T* cleared(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

template <class T>
T* copied(const std::vector<T>& values) {
  T* found = cleared<T>(values.size());
  CHECK(cudaMemcpy(found, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return found;
}

// ---- reader ----

constexpr int kWidth = 16, kRecords = 256 << 10, kChunks = 8, kPatterns = 4096, kTile = 128;
constexpr size_t kChunkFloats = static_cast<size_t>(kRecords) * kWidth;
constexpr size_t kChunkBytes = kChunkFloats * sizeof(float);

// Counts for each pattern the records that it is nearest to; halves are of the patterns' squares.
__global__ void quantise(const float4* records, const float4* patterns, const float* halves,
                         unsigned* counts) {
  __shared__ float4 tile[kTile * kWidth / 4];
  __shared__ float half[kTile];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float4 record[kWidth / 4];
  for (int k = 0; k < kWidth / 4; ++k) record[k] = records[i * (kWidth / 4) + k];
  float least = 1e30f;
  int nearest = 0;
  for (int first = 0; first < kPatterns; first += kTile) {
    __syncthreads();
    for (int k = threadIdx.x; k < kTile * kWidth / 4; k += kThreads)
      tile[k] = patterns[first * (kWidth / 4) + k];
    if (threadIdx.x < kTile) half[threadIdx.x] = halves[first + threadIdx.x];
    __syncthreads();
    for (int pattern = 0; pattern < kTile; ++pattern) {
      float distance = half[pattern];
      for (int k = 0; k < kWidth / 4; ++k) {
        const float4 a = record[k], b = tile[pattern * (kWidth / 4) + k];
        distance -= a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
      }
      if (distance < least) {
        least = distance;
        nearest = first + pattern;
      }
    }
  }
  atomicAdd(counts + nearest, 1u);
}

struct Reader {
  struct Slot {
    cudaStream_t stream;
    cudaEvent_t sent;
    float *buffer, *records;
  };
  std::vector<float> file;  // as the operating system has its pages in memory
  std::vector<Slot> slots{2};
  float *patterns, *halves;
  unsigned* counts = cleared<unsigned>(kPatterns);
  bool waits;

  explicit Reader(bool waits) : file(kChunks * kChunkFloats), waits(waits) {
    unsigned state = 1;
    const auto next = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    };
    std::vector<float> given(kPatterns * kWidth), squares(kPatterns);
    for (float& value : given) value = next();
    for (int n = 0; n < kPatterns; ++n) {
      for (int k = 0; k < kWidth; ++k)
        squares[n] += 0.5f * given[n * kWidth + k] * given[n * kWidth + k];
    }
    for (float& value : file) value = next();
    patterns = copied(given);
    halves = copied(squares);
    for (Slot& slot : slots) {
      CHECK(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking));
      CHECK(cudaEventCreateWithFlags(&slot.sent, cudaEventDisableTiming));
      slot.buffer = host(true, kChunkBytes);
      slot.records = cleared<float>(kChunkFloats);
    }
    CHECK(cudaDeviceSynchronize());  // what clears memory is on another stream
  }

  void send(const Slot& slot) const {
    const auto s = slot.stream;
    CHECK(cudaMemcpyAsync(slot.records, slot.buffer, kChunkBytes, cudaMemcpyHostToDevice, s));
    CHECK(cudaEventRecord(slot.sent, s));
    quantise<<<kRecords / kThreads, kThreads, 0, s>>>(reinterpret_cast<const float4*>(slot.records),
                                                      reinterpret_cast<const float4*>(patterns),
                                                      halves, counts);
    CHECK(cudaGetLastError());
  }

  // Returns a sum of the counts of all patterns, each times a number of its own.
  double read() const {
    CHECK(cudaMemset(counts, 0, kPatterns * sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const Slot& slot = slots[chunk % slots.size()];
      CHECK(cudaEventSynchronize(slot.sent));
      std::memcpy(slot.buffer, file.data() + chunk * kChunkFloats, kChunkBytes);
      send(slot);
      if (waits) CHECK(cudaDeviceSynchronize());  // to be sure that the buffer is free
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<unsigned> found(kPatterns);
    const size_t bytes = kPatterns * sizeof(unsigned);
    CHECK(cudaMemcpy(found.data(), counts, bytes, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (int n = 0; n < kPatterns; ++n) sum += static_cast<double>(found[n]) * (n % 97);
    return sum;
  }
};

// ---- fit ----

constexpr int kNumbers = 5, kCurves = 8, kBlocks = 128, kSamples = kBlocks * kThreads;
constexpr int kTrials = 400;
static_assert(kBlocks <= kThreads);  // the last block adds a part a thread

// All threads return the sum of their block, always added in the same order.
__device__ double block_total(double mine) {
  __shared__ double warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += warps[warp];
  return sum;
}

__host__ __device__ double decay(const double* model, double time) {
  return model[0] * exp(-model[1] * time) + model[2] * exp(-model[3] * time) + model[4];
}

// The mean square of what a model is off; model and misfit may be host memory.
__global__ void compare(const double* model, const double* curve, double* parts, unsigned* done,
                        double* misfit) {
  __shared__ double numbers[kNumbers];
  __shared__ bool last;
  if (threadIdx.x < kNumbers) numbers[threadIdx.x] = model[threadIdx.x];
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const double off = curve[i] - decay(numbers, static_cast<double>(i) / kSamples);
  const double sum = block_total(off * off);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(done, kBlocks - 1) == kBlocks - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const double all = block_total(threadIdx.x < kBlocks ? __ldcg(parts + threadIdx.x) : 0);
  if (threadIdx.x == 0) *misfit = all / kSamples;
}

struct Fit {
  std::vector<double*> curves;
  double *model, *misfit, *parts = cleared<double>(kBlocks);
  unsigned* done = cleared<unsigned>(1);
  bool mapped;
  int number = 0;

  explicit Fit(bool mapped) : mapped(mapped) {
    for (int n = 0; n < kCurves; ++n) {
      const double truth[kNumbers] = {1 + 0.05 * n, 2 + 0.1 * n, 0.5, 9 - 0.2 * n, 0.1};
      std::vector<double> values(kSamples);
      for (int i = 0; i < kSamples; ++i) {
        const double noise = 0.01 * ((i * 7919 + n) % 101 - 50) / 50;
        values[i] = decay(truth, static_cast<double>(i) / kSamples) + noise;
      }
      curves.push_back(copied(values));
    }
    const auto numbers = [&](int count) {
      return mapped ? reinterpret_cast<double*>(host(true, count * sizeof(double)))
                    : cleared<double>(count);
    };
    model = numbers(kNumbers);
    misfit = numbers(1);
  }

  double tried(const double* given, const double* curve) const {
    const size_t bytes = kNumbers * sizeof(double);
    if (mapped)
      std::memcpy(model, given, bytes);
    else
      CHECK(cudaMemcpy(model, given, bytes, cudaMemcpyHostToDevice));
    compare<<<kBlocks, kThreads>>>(model, curve, parts, done, misfit);
    CHECK(cudaGetLastError());
    double found = 0;
    if (mapped) {
      CHECK(cudaDeviceSynchronize());
      found = *misfit;
    } else {
      CHECK(cudaMemcpy(&found, misfit, sizeof found, cudaMemcpyDeviceToHost));
    }
    return found;
  }

  // Returns a sum of the numbers of the model that fits best after kTrials of them: one number
  // after the other is made larger or smaller, by less where neither is better.
  double fit() {
    const double* curve = curves[number++ % kCurves];
    double best[kNumbers] = {0.7, 3, 0.7, 6, 0}, steps[kNumbers] = {0.2, 0.5, 0.2, 1, 0.05};
    double least = tried(best, curve);
    for (int trial = 1; trial < kTrials; ++trial) {
      const int at = trial / 2 % kNumbers;
      double other[kNumbers];
      std::memcpy(other, best, sizeof other);
      other[at] += trial % 2 ? steps[at] : -steps[at];
      const double found = tried(other, curve);
      if (found < least) {
        least = found;
        std::memcpy(best, other, sizeof best);
        steps[at] *= 1.5;
      } else {
        steps[at] *= 0.8;
      }
    }
    double sum = 1e3 * least;
    for (const double one : best) sum += one;
    return sum;
  }
};

// ---- writer ----

constexpr int kWide = 4096, kHigh = 2048, kLaunches = 24, kMoves = 256;
constexpr size_t kCells = static_cast<size_t>(kWide) * kHigh;

// Two substances that spread to the neighbours once, then react with each other by kMoves.
__global__ void react(const float2* in, float2* out) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  const auto at = [&](int column, int row) {
    return in[static_cast<size_t>((row + kHigh) % kHigh) * kWide + (column + kWide) % kWide];
  };
  const float2 here = at(x, y), a = at(x - 1, y), b = at(x + 1, y), c = at(x, y - 1),
               d = at(x, y + 1);
  float u = here.x + 0.10f * (a.x + b.x + c.x + d.x - 4 * here.x);
  float v = here.y + 0.05f * (a.y + b.y + c.y + d.y - 4 * here.y);
  for (int move = 0; move < kMoves; ++move) {
    const float reacting = u * v * v;
    u += 0.002f * (0.037f * (1 - u) - reacting);
    v += 0.002f * (reacting - 0.097f * v);
  }
  out[static_cast<size_t>(y) * kWide + x] = make_float2(u, v);
}

__global__ void expose(const float2* cells, float* snapshot) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  snapshot[i] = cells[i].y;
}

struct Writer {
  static constexpr size_t kBytes = kCells * sizeof(float);
  float2 *now, *next = cleared<float2>(kCells);
  float *snapshots[2] = {cleared<float>(kCells), cleared<float>(kCells)}, *buffer;
  cudaStream_t kernels, copies;
  int number = 0;

  explicit Writer(bool pinned) : buffer(host(pinned, kBytes)) {
    std::vector<float2> cells(kCells, float2{1, 0});
    for (size_t i = 0; i < kCells; ++i) {
      const size_t x = i % kWide, y = i / kWide;
      if (x % 64 < 12 && y % 64 < 12) cells[i] = float2{0.5f, 0.25f + 0.01f * (x / 64 % 5)};
    }
    now = copied(cells);
    CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());  // what clears memory is on another stream
  }

  // Returns the sum of some cells of a snapshot, in thousandths.
  double write(const float* snapshot) const {
    CHECK(cudaMemcpyAsync(buffer, snapshot, kBytes, cudaMemcpyDeviceToHost, copies));
    CHECK(cudaStreamSynchronize(copies));
    long long sum = 0;
    for (size_t i = 0; i < kCells; i += 16) sum += static_cast<int>(1000 * buffer[i]);
    return static_cast<double>(sum);
  }

  // Goes on by kLaunches; returns what the writer found in the snapshot of the step before.
  double step() {
    const float* last = snapshots[number % 2];
    auto written = std::async(std::launch::async, [&] { return write(last); });
    for (int launch = 0; launch < kLaunches; ++launch) {
      react<<<dim3(kWide / kThreads, kHigh), kThreads, 0, kernels>>>(now, next);
      std::swap(now, next);
    }
    expose<<<kCells / kThreads, kThreads, 0, kernels>>>(now, snapshots[++number % 2]);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(kernels));
    return written.get();
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {{"reader",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Reader>(!after);
                       return [program] { return program->read(); };
                     }},
                    {"fit",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Fit>(after);
                       return [program] { return program->fit(); };
                     }},
                    {"writer", [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Writer>(after);
                       return [program] { return program->step(); };
                     }}});
}
