// Three CUDA C++ programs for the closed loop of advise, the fourth set; see blind.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o blind benchmarks/advise/blind.cu
//     blind pricer|wave|triple before|after [STEPS]
//
// pricer: a book of options by Monte Carlo, the parameters of each uploaded before its kernels, its
// price read back after them; after: prices read together, at the end of a step. wave: a wave
// equation, whose field goes to memory of malloc every 20 steps of time, where the host looks at it
// to choose the source; after: pinned memory. triple: three blocks of pinned memory in flight, each
// on a stream, so that both directions of the link are busy all the time: nothing is to be gained;
// after: each block in eight parts on four streams.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// ---- pricer ----

constexpr int kOptions = 64, kDates = 120, kPathBlocks = 256, kPaths = kPathBlocks * kThreads;
static_assert(kPathBlocks == kThreads);  // average takes a part a thread

// Of an option on the mean of a price over its dates.
struct Parameters {
  float drift[kDates], volatility[kDates];
  float spot, strike, discount;
  uint32_t seed;
};

// Thread 0 returns the sum of its block, always added in the same order.
__device__ double block_total(double mine) {
  __shared__ double warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += warps[warp];
  return sum;
}

__device__ float uniform(uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (static_cast<float>(state >> 40) + 0.5f) * (1.f / (1 << 24));
}

__global__ void simulate(const Parameters* option, double* parts) {
  const int path = blockIdx.x * kThreads + threadIdx.x;
  uint64_t state = (static_cast<uint64_t>(option->seed) << 32) + 2654435761u * (path + 1u);
  float growth = 0, sum = 0;
  for (int date = 0; date < kDates; ++date) {
    const float radius = sqrtf(-2 * logf(uniform(state)));
    const float normal = radius * cospif(2 * uniform(state));
    growth += option->drift[date] + option->volatility[date] * normal;
    sum += expf(growth);
  }
  const float payoff = fmaxf(option->spot * sum / kDates - option->strike, 0.f);
  const double total = block_total(payoff * option->discount);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ void average(const double* parts, double* price) {
  const double total = block_total(parts[threadIdx.x]);
  if (threadIdx.x == 0) *price = total / kPaths;
}

struct Pricer {
  std::vector<Parameters> book{kOptions};
  Parameters* option = cleared<Parameters>(1);
  double *parts = cleared<double>(kPathBlocks), *prices = cleared<double>(kOptions);
  int number = 0;

  Pricer() {
    for (int n = 0; n < kOptions; ++n) {
      for (int date = 0; date < kDates; ++date) {
        const float volatility = 0.01f + 0.0001f * ((n + date) % 50);
        book[n].volatility[date] = volatility;
        book[n].drift[date] = 0.0001f - 0.5f * volatility * volatility;
      }
      book[n].strike = 90 + n % 21;
      book[n].discount = 0.98f;
      book[n].seed = 1000u + n;
    }
  }

  // Returns the sum of the prices of all options, as the market is at this step.
  double price(bool after) {
    const float spot = 98 + number++ % 5;
    double found[kOptions], sum = 0;
    for (int n = 0; n < kOptions; ++n) {
      double* result = after ? prices + n : prices;
      book[n].spot = spot;
      CHECK(cudaMemcpy(option, &book[n], sizeof(Parameters), cudaMemcpyHostToDevice));
      simulate<<<kPathBlocks, kThreads>>>(option, parts);
      average<<<1, kThreads>>>(parts, result);
      CHECK(cudaGetLastError());
      if (!after) CHECK(cudaMemcpy(found + n, result, sizeof *found, cudaMemcpyDeviceToHost));
    }
    if (after) CHECK(cudaMemcpy(found, prices, sizeof found, cudaMemcpyDeviceToHost));
    for (const double value : found) sum += value;
    return sum;
  }
};

// ---- wave ----

constexpr int kWide = 4096, kHigh = 2048, kTimes = 20, kProbe = 1021;
constexpr size_t kField = static_cast<size_t>(kWide) * kHigh;

__global__ void advance(const float* now, float* before, float source) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  const size_t i = static_cast<size_t>(y) * kWide + x;
  if (x == 0 || y == 0 || x == kWide - 1 || y == kHigh - 1) return;
  const float here = now[i];
  const float around = now[i - 1] + now[i + 1] + now[i - kWide] + now[i + kWide] - 4 * here;
  float next = 0.999f * (2 * here - before[i]) + 0.2f * around;
  if (x % 512 == 256 && y % 512 == 256) next += source;
  before[i] = next;
}

struct Wave {
  float *now = cleared<float>(kField), *before = cleared<float>(kField), *snapshot;
  float source = 1;

  explicit Wave(bool pinned) : snapshot(host(pinned, kField * sizeof(float))) {}

  // Returns the sum of some values of the field after kTimes steps of time.
  double run() {
    for (int time = 0; time < kTimes; ++time) {
      advance<<<dim3(kWide / kThreads, kHigh), kThreads>>>(now, before, source);
      std::swap(now, before);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(snapshot, now, kField * sizeof(float), cudaMemcpyDeviceToHost));
    float most = 0;
    double sum = 0;
    for (size_t i = 0; i < kField; i += kProbe) {
      const float height = std::fabs(snapshot[i]);
      most = std::fmax(most, height);
      sum += height;
    }
    source = most > 1 ? -0.5f : 1;  // what the next steps of time need
    return sum;
  }
};

// ---- triple ----

constexpr int kInFlight = 3, kValues = 16 << 20;
constexpr size_t kBytes = kValues * sizeof(float);

__global__ void correct(const float* in, float* out, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) out[i] = sqrtf(in[i]) * 0.75f + 0.25f * in[i];
}

struct Triple {
  struct Slot {
    float *given, *result, *in, *out;
    std::vector<cudaStream_t> streams;
  };
  std::vector<Slot> slots{kInFlight};
  int parts, number = 0;

  explicit Triple(bool cut) : parts(cut ? 8 : 1) {
    for (Slot& slot : slots) {
      slot.given = host(true, kBytes);
      for (int i = 0; i < kValues; ++i) slot.given[i] = static_cast<float>(i % 1013) / 1013;
      slot.result = host(true, kBytes);
      slot.in = cleared<float>(kValues);
      slot.out = cleared<float>(kValues);
      slot.streams.resize(cut ? 4 : 1);
      for (cudaStream_t& stream : slot.streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    CHECK(cudaDeviceSynchronize());  // what clears memory is on another stream
    for (const Slot& slot : slots) start(slot);
  }

  void start(const Slot& slot) const {
    const int count = kValues / parts;
    const size_t bytes = count * sizeof(float);
    for (int part = 0; part < parts; ++part) {
      const cudaStream_t s = slot.streams[part % slot.streams.size()];
      const size_t at = static_cast<size_t>(part) * count;
      CHECK(cudaMemcpyAsync(slot.in + at, slot.given + at, bytes, cudaMemcpyHostToDevice, s));
      correct<<<count / kThreads, kThreads, 0, s>>>(slot.in + at, slot.out + at, count);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(slot.result + at, slot.out + at, bytes, cudaMemcpyDeviceToHost, s));
    }
  }

  // Waits for the oldest block, looks at some of its values, and starts the next in its place.
  double step() {
    const Slot& slot = slots[number++ % kInFlight];
    for (const cudaStream_t stream : slot.streams) CHECK(cudaStreamSynchronize(stream));
    double sum = 0;
    for (int i = 0; i < kValues; i += 4093) sum += slot.result[i];
    start(slot);
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {{"pricer",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Pricer>();
                       return [program, after] { return program->price(after); };
                     }},
                    named<Wave>("wave"),
                    {"triple", [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Triple>(after);
                       return [program] { return program->step(); };
                     }}});
}
