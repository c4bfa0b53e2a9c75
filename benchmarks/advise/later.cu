// Three CUDA C++ programs for the closed loop of advise, written after advise was; see later.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o later benchmarks/advise/later.cu
//     later solver|video|ring before|after [STEPS]
//
// solver: conjugate gradients of a sparse matrix, whose residual is read back and looked at in each
// iteration; after: read back together, once a step. video: frames through three kernels, two in
// flight on two streams, from and to memory of malloc; after: pinned memory. ring: 64 slots of
// pinned memory that receivers have filled, copied while the data before are worked on, which takes
// longer: nothing is to be gained; after: gathered by the host, and copied at once, which should
// lose.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256, kBlocks = 256;

template <class T>
T* device(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

template <class T>
T* device(const std::vector<T>& values) {
  T* found = device<T>(values.size());
  CHECK(cudaMemcpy(found, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return found;
}

// Thread 0 returns the sum of its block, always added in the same order.
template <class T>
__device__ T block_sum(T mine) {
  __shared__ T sums[kThreads];
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  return sums[0];
}

// ---- solver ----

constexpr int kSide = 512, kUnknowns = kSide * kSide, kIterations = 60;
constexpr double kTolerance = 1e-12;

struct Sparse {
  std::vector<int> starts{0}, columns;
  std::vector<double> values;

  void put(int column, double value) {
    columns.push_back(column);
    values.push_back(value);
  }
};

// Diffusion on a grid of kSide by kSide points, whose border is held.
Sparse diffusion() {
  Sparse m;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int here = y * kSide + x;
      if (y > 0) m.put(here - kSide, -1);
      if (x > 0) m.put(here - 1, -1);
      m.put(here, 4.05);
      if (x + 1 < kSide) m.put(here + 1, -1);
      if (y + 1 < kSide) m.put(here + kSide, -1);
      m.starts.push_back(static_cast<int>(m.columns.size()));
    }
  }
  return m;
}

// What the iterations hand on, all on the GPU.
struct Scalars {
  double squares, step, ratio;
};

__global__ void restart(double* x, double* r, double* p, Scalars* s) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  x[i] = 0;
  r[i] = p[i] = 1 + 0.5 * (i % 17) / 17;
  if (i == 0) s->squares = 0;
}

__global__ void multiply(const int* starts, const int* columns, const double* values,
                         const double* p, double* product) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  double sum = 0;
  for (int k = starts[row]; k < starts[row + 1]; ++k) sum += values[k] * p[columns[k]];
  product[row] = sum;
}

__global__ void dot(const double* a, const double* b, double* parts) {
  double sum = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < kUnknowns; i += kBlocks * kThreads)
    sum += a[i] * b[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void first_squares(const double* parts, Scalars* s) {
  const double sum = block_sum(parts[threadIdx.x]);
  if (threadIdx.x == 0) s->squares = sum;
}

__global__ void find_step(const double* parts, Scalars* s) {
  const double sum = block_sum(parts[threadIdx.x]);
  if (threadIdx.x == 0) s->step = s->squares / sum;
}

__global__ void advance(const double* p, const double* product, double* x, double* r,
                        const Scalars* s) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  x[i] += s->step * p[i];
  r[i] -= s->step * product[i];
}

__global__ void find_ratio(const double* parts, Scalars* s, double* residual) {
  const double sum = block_sum(parts[threadIdx.x]);
  if (threadIdx.x != 0) return;
  s->ratio = sum / s->squares;
  s->squares = sum;
  *residual = sqrt(sum);
}

__global__ void turn(const double* r, double* p, const Scalars* s) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  p[i] = r[i] + s->ratio * p[i];
}

struct Solver {
  int *starts, *columns;
  double *values, *x, *r, *p, *product, *parts, *residuals;
  Scalars* scalars;

  Solver()
      : x(device<double>(kUnknowns)),
        r(device<double>(kUnknowns)),
        p(device<double>(kUnknowns)),
        product(device<double>(kUnknowns)),
        parts(device<double>(kBlocks)),
        residuals(device<double>(kIterations)),
        scalars(device<Scalars>(1)) {
    const Sparse m = diffusion();
    starts = device(m.starts);
    columns = device(m.columns);
    values = device(m.values);
  }

  void iterate(double* residual) const {
    constexpr int all = kUnknowns / kThreads;
    multiply<<<all, kThreads>>>(starts, columns, values, p, product);
    dot<<<kBlocks, kThreads>>>(p, product, parts);
    find_step<<<1, kThreads>>>(parts, scalars);
    advance<<<all, kThreads>>>(p, product, x, r, scalars);
    dot<<<kBlocks, kThreads>>>(r, r, parts);
    find_ratio<<<1, kThreads>>>(parts, scalars, residual);
    turn<<<all, kThreads>>>(r, p, scalars);
    CHECK(cudaGetLastError());
  }

  // Returns the sum of the residuals until the solution is found.
  double solve(bool after) const {
    restart<<<kUnknowns / kThreads, kThreads>>>(x, r, p, scalars);
    dot<<<kBlocks, kThreads>>>(r, r, parts);
    first_squares<<<1, kThreads>>>(parts, scalars);
    double found[kIterations], sum = 0;
    for (int i = 0; i < kIterations; ++i) {
      iterate(residuals + i);
      if (after) continue;
      CHECK(cudaMemcpy(found + i, residuals + i, sizeof *found, cudaMemcpyDeviceToHost));
      if (found[i] < kTolerance) break;
    }
    if (after) CHECK(cudaMemcpy(found, residuals, sizeof found, cudaMemcpyDeviceToHost));
    for (int i = 0; i < kIterations; ++i) {
      sum += found[i];
      if (found[i] < kTolerance) break;
    }
    return sum;
  }
};

// ---- video ----

constexpr int kWide = 1920, kHigh = 1080, kPixels = kWide * kHigh, kFrames = 8, kInFlight = 2;

__global__ void denoise(const uchar4* in, uchar4* out) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= kPixels) return;
  const uchar4 a = in[i > 0 ? i - 1 : i], b = in[i], c = in[i + 1 < kPixels ? i + 1 : i];
  const auto middle = [](int p, int q, int r) { return max(min(p, q), min(max(p, q), r)); };
  out[i] = make_uchar4(middle(a.x, b.x, c.x), middle(a.y, b.y, c.y), middle(a.z, b.z, c.z), b.w);
}

__global__ void brighten(uchar4* frame) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= kPixels) return;
  const auto bright = [](int v) { return static_cast<unsigned char>(v + v * (255 - v) / 510); };
  const uchar4 v = frame[i];
  frame[i] = make_uchar4(bright(v.x), bright(v.y), bright(v.z), v.w);
}

__global__ void outline(const uchar4* in, uchar4* out) {
  const int x = (blockIdx.x * kThreads + threadIdx.x) % kWide;
  const int y = (blockIdx.x * kThreads + threadIdx.x) / kWide;
  if (y >= kHigh) return;
  const auto grey = [&](int column, int row) {
    const uchar4 v = in[min(max(row, 0), kHigh - 1) * kWide + min(max(column, 0), kWide - 1)];
    return (v.x + v.y + v.z) / 3;
  };
  const int across = grey(x + 1, y) - grey(x - 1, y), down = grey(x, y + 1) - grey(x, y - 1);
  const int edge = min(255, abs(across) + abs(down));
  const uchar4 v = in[y * kWide + x];
  out[y * kWide + x] = make_uchar4(max(v.x - edge, 0), max(v.y - edge, 0), max(v.z - edge, 0), v.w);
}

struct Video {
  static constexpr size_t kBytes = kPixels * sizeof(uchar4);
  struct Slot {
    cudaStream_t stream;
    uchar4 *in, *work, *out;
    float* result;
  };
  std::vector<float*> frames;
  std::vector<Slot> slots;

  explicit Video(bool pinned) {
    for (int n = 0; n < kFrames; ++n) {
      frames.push_back(host(pinned, kBytes));
      auto* bytes = reinterpret_cast<unsigned char*>(frames.back());
      for (size_t i = 0; i < kBytes; ++i)
        bytes[i] = static_cast<unsigned char>((i * i / 61 + 37 * n) % 251);
    }
    for (int n = 0; n < kInFlight; ++n) {
      Slot slot{nullptr, device<uchar4>(kPixels), device<uchar4>(kPixels), device<uchar4>(kPixels),
                host(pinned, kBytes)};
      CHECK(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking));
      slots.push_back(slot);
    }
  }

  void start(const Slot& slot, int number) const {
    constexpr int blocks = (kPixels + kThreads - 1) / kThreads;
    const cudaStream_t s = slot.stream;
    CHECK(cudaMemcpyAsync(slot.in, frames[number], kBytes, cudaMemcpyHostToDevice, s));
    denoise<<<blocks, kThreads, 0, s>>>(slot.in, slot.work);
    brighten<<<blocks, kThreads, 0, s>>>(slot.work);
    outline<<<blocks, kThreads, 0, s>>>(slot.work, slot.out);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(slot.result, slot.out, kBytes, cudaMemcpyDeviceToHost, s));
  }

  // Waits for the frame of a slot, and returns the sum of some of its bytes, as a writer reads it.
  static double finish(const Slot& slot) {
    CHECK(cudaStreamSynchronize(slot.stream));
    const auto* bytes = reinterpret_cast<const unsigned char*>(slot.result);
    double sum = 0;
    for (size_t i = 0; i < kBytes; i += 1021) sum += bytes[i];
    return sum;
  }

  double play() const {
    double sum = 0;
    for (int n = 0; n < kFrames; ++n) {
      const Slot& slot = slots[n % kInFlight];
      if (n >= kInFlight) sum += finish(slot);
      start(slot, n);
    }
    for (const Slot& slot : slots) sum += finish(slot);
    return sum;
  }
};

// ---- ring ----

constexpr int kSlots = 64, kSlot = 128 << 10, kAhead = 2, kWork = 4000;
constexpr size_t kSlotBytes = kSlot * sizeof(float);

__global__ void work(const float* in, float* parts) {
  float sum = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < kSlots * kSlot; i += gridDim.x * kThreads) {
    float value = in[i];
    for (int k = 0; k < kWork; ++k) value = value * 0.9999f + 0.0001f;
    sum += value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void add_up(const float* parts, int count, float* result) {
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

struct Ring {
  static constexpr int kParts = 4096;
  struct Turn {
    float *slots[kSlots], *gathered, *in, *parts, *result_device, *result;
    cudaEvent_t copied, done;
  };
  std::vector<Turn> turns;
  cudaStream_t copies, kernels;
  bool gathers;
  int number = 0;

  explicit Ring(bool gathers) : turns(kAhead), gathers(gathers) {
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    for (Turn& turn : turns) {
      for (int n = 0; n < kSlots; ++n) {
        turn.slots[n] = host(true, kSlotBytes);
        for (int i = 0; i < kSlot; ++i)
          turn.slots[n][i] = static_cast<float>((i + n) % 1013) / 1013;
      }
      turn.gathered = gathers ? host(true, kSlots * kSlotBytes) : nullptr;
      turn.in = device<float>(static_cast<size_t>(kSlots) * kSlot);
      turn.parts = device<float>(kParts);
      turn.result_device = device<float>(1);
      turn.result = host(true, sizeof(float));
      CHECK(cudaEventCreateWithFlags(&turn.copied, cudaEventDisableTiming));
      CHECK(cudaEventCreateWithFlags(&turn.done, cudaEventDisableTiming));
    }
    for (Turn& turn : turns) start(turn);
  }

  void start(Turn& turn) const {
    const size_t bytes = kSlots * kSlotBytes;
    if (gathers) {
      for (int n = 0; n < kSlots; ++n)
        std::memcpy(turn.gathered + static_cast<size_t>(n) * kSlot, turn.slots[n], kSlotBytes);
      CHECK(cudaMemcpyAsync(turn.in, turn.gathered, bytes, cudaMemcpyHostToDevice, copies));
    } else {
      for (int n = 0; n < kSlots; ++n)
        CHECK(cudaMemcpyAsync(turn.in + static_cast<size_t>(n) * kSlot, turn.slots[n], kSlotBytes,
                              cudaMemcpyHostToDevice, copies));
    }
    CHECK(cudaEventRecord(turn.copied, copies));
    CHECK(cudaStreamWaitEvent(kernels, turn.copied, 0));
    work<<<kParts, kThreads, 0, kernels>>>(turn.in, turn.parts);
    add_up<<<1, kThreads, 0, kernels>>>(turn.parts, kParts, turn.result_device);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(turn.result, turn.result_device, sizeof(float), cudaMemcpyDeviceToHost,
                          kernels));
    CHECK(cudaEventRecord(turn.done, kernels));
  }

  // Waits for the data of two steps ago; those that the receivers have filled since then follow.
  double step() {
    Turn& turn = turns[number++ % kAhead];
    CHECK(cudaEventSynchronize(turn.done));
    const double sum = *turn.result;
    start(turn);
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {{"solver",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Solver>();
                       return [program, after] { return program->solve(after); };
                     }},
                    {"video",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Video>(after);
                       return [program] { return program->play(); };
                     }},
                    {"ring", [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Ring>(after);
                       return [program] { return program->step(); };
                     }}});
}
