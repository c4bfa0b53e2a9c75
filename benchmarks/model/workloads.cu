// Workloads on which nothing in lanescope was fitted or tuned, timed by every method of moving
// their data. benchmarks/model/workloads.py compares the times with predictions.
//
//     nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -o workloads benchmarks/model/workloads.cu
//     workloads OUT.json [ROUNDS]
//
// A workload is cut into units that need nothing of one another. All memory is allocated, touched
// and filled before. A time is that from the first call until cudaDeviceSynchronize returns. The
// bytes that come out are compared with those of the method Explicit.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../cuda_check.cuh"

namespace {

constexpr int kArrays = 3;

struct Arrays {
  const char* in[kArrays];
  char* out[kArrays];
};

// ---- kernels; each block works on one unit or on a part of one ----

constexpr int kImage = 256, kTile = 32;

template <int R>
__global__ void convolve(const float* in, float* out) {
  __shared__ float tile[kTile + 2 * R][kTile + 2 * R];
  const size_t base = static_cast<size_t>(blockIdx.z) * kImage * kImage;
  const int x0 = blockIdx.x * kTile - R, y0 = blockIdx.y * kTile - R;
  for (int y = threadIdx.y; y < kTile + 2 * R; y += blockDim.y)
    for (int x = threadIdx.x; x < kTile + 2 * R; x += blockDim.x) {
      const int xi = min(max(x0 + x, 0), kImage - 1), yi = min(max(y0 + y, 0), kImage - 1);
      tile[y][x] = in[base + static_cast<size_t>(yi) * kImage + xi];
    }
  __syncthreads();
  for (int y = threadIdx.y; y < kTile; y += blockDim.y) {
    float sum = 0;
    for (int j = 0; j <= 2 * R; ++j)
      for (int i = 0; i <= 2 * R; ++i) sum += tile[y + j][threadIdx.x + i] * (1.0f / (i + j + 1));
    out[base + static_cast<size_t>(blockIdx.y * kTile + y) * kImage + blockIdx.x * kTile +
        threadIdx.x] = sum;
  }
}

constexpr int kMatrix = 64;

__global__ void multiply(const float* a, const float* b, float* c) {
  __shared__ float sa[kMatrix][kMatrix], sb[kMatrix][kMatrix];
  const size_t base = static_cast<size_t>(blockIdx.x) * kMatrix * kMatrix;
  for (int i = threadIdx.x; i < kMatrix * kMatrix; i += blockDim.x) {
    sa[i / kMatrix][i % kMatrix] = a[base + i];
    sb[i / kMatrix][i % kMatrix] = b[base + i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kMatrix * kMatrix; i += blockDim.x) {
    float sum = 0;
    for (int k = 0; k < kMatrix; ++k) sum += sa[i / kMatrix][k] * sb[k][i % kMatrix];
    c[base + i] = sum;
  }
}

constexpr int kRows = 1024, kEntries = 32;

__global__ void sparse(const float* values, const int* columns, const float* x, float* y) {
  const size_t row = static_cast<size_t>(blockIdx.x) * (blockDim.x / kEntries) +
                     threadIdx.x / kEntries;
  const size_t at = row * kEntries + threadIdx.x % kEntries;
  float product = values[at] * x[columns[at]];
  for (int step = kEntries / 2; step > 0; step /= 2)
    product += __shfl_down_sync(0xffffffffu, product, step);
  if (threadIdx.x % kEntries == 0) y[row] = product;
}

constexpr int kSegment = 65536, kScanThreads = 1024;

__global__ void scan(const float* in, float* out) {
  __shared__ float sums[kScanThreads];
  const size_t base = static_cast<size_t>(blockIdx.x) * kSegment;
  float carry = 0;
  for (int begin = 0; begin < kSegment; begin += kScanThreads) {
    sums[threadIdx.x] = in[base + begin + threadIdx.x];
    __syncthreads();
    for (int step = 1; step < kScanThreads; step *= 2) {
      const float left = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
      __syncthreads();
      sums[threadIdx.x] += left;
      __syncthreads();
    }
    out[base + begin + threadIdx.x] = carry + sums[threadIdx.x];
    carry += sums[kScanThreads - 1];
    __syncthreads();
  }
}

constexpr int kCodes = 65536;

__global__ void decode(const unsigned char* codes, uchar4* pixels, const float* table) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float luma = table[codes[i]];
  float red = luma, green = luma, blue = luma;
  for (int k = 1; k < 12; ++k) {
    red += __sinf(luma * k) / k;
    green += __cosf(luma * k) / k;
    blue -= __sinf(luma * k + 1) / k;
  }
  pixels[i] = make_uchar4(static_cast<unsigned char>(64 + 32 * red),
                          static_cast<unsigned char>(64 + 32 * green),
                          static_cast<unsigned char>(64 + 32 * blue), 255);
}

constexpr int kSequence = 128, kHead = 64;

__global__ void attend(const float* q, const float* k, const float* v, float* o) {
  extern __shared__ float shared[];
  float *sk = shared, *sv = shared + kSequence * kHead;
  const size_t base = static_cast<size_t>(blockIdx.x) * kSequence * kHead;
  for (int i = threadIdx.x; i < kSequence * kHead; i += blockDim.x) {
    sk[i] = k[base + i];
    sv[i] = v[base + i];
  }
  __syncthreads();
  float mine[kHead], sum[kHead] = {}, most = -1e30f, total = 0;
  for (int d = 0; d < kHead; ++d) mine[d] = q[base + threadIdx.x * kHead + d];
  for (int j = 0; j < kSequence; ++j) {
    float score = 0;
    for (int d = 0; d < kHead; ++d) score += mine[d] * sk[j * kHead + d];
    score *= 0.125f;
    const float larger = fmaxf(most, score), old = __expf(most - larger);
    const float weight = __expf(score - larger);
    total = total * old + weight;
    for (int d = 0; d < kHead; ++d) sum[d] = sum[d] * old + weight * sv[j * kHead + d];
    most = larger;
  }
  for (int d = 0; d < kHead; ++d) o[base + threadIdx.x * kHead + d] = sum[d] / total;
}

constexpr int kOptions = 16384;

__device__ float normal(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

__global__ void price(const float* spot, const float* strike, const float* years, float* call,
                      float* put) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float s = 50 + fabsf(spot[i]), k = 50 + fabsf(strike[i]), t = 0.1f + fabsf(years[i]);
  const float root = sqrtf(t), d1 = (logf(s / k) + 0.065f * t) / (0.3f * root);
  const float d2 = d1 - 0.3f * root, discount = expf(-0.02f * t);
  call[i] = s * normal(d1) - k * discount * normal(d2);
  put[i] = k * discount * normal(-d2) - s * normal(-d1);
}

// ---- the workloads ----

struct Workload {
  std::string name;
  std::vector<size_t> in, out;  // bytes of a unit, by array
  double mapped_reads;          // how often the kernel loads a byte of the unit, caches aside
  std::function<void(const Arrays&, int, cudaStream_t)> launch;  // so many units
  std::function<double(int)> steps;  // of so many units: waves of blocks, times passes in each

  size_t bytes(const std::vector<size_t>& arrays) const {
    size_t sum = 0;
    for (size_t one : arrays) sum += one;
    return sum;
  }
};

float *g_vector, *g_table;
constexpr int kVector = 1 << 20;

template <typename T>
const T* in(const Arrays& a, int i) {
  return reinterpret_cast<const T*>(a.in[i]);
}
template <typename T>
T* out(const Arrays& a, int i) {
  return reinterpret_cast<T*>(a.out[i]);
}

template <typename K>
double steps(K kernel, int threads, size_t shared, double blocks, double passes = 1) {
  int each = 0;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared));
  return std::max(1.0, blocks / (each * properties.multiProcessorCount)) * passes;
}

template <int R>
Workload convolution() {
  constexpr double side = static_cast<double>(kTile + 2 * R) / kTile;
  const size_t image = sizeof(float) * kImage * kImage;
  return {"convolution-r" + std::to_string(R), {image}, {image}, side * side,
          [](const Arrays& a, int units, cudaStream_t s) {
            dim3 grid(kImage / kTile, kImage / kTile, units);
            convolve<R><<<grid, dim3(kTile, 8), 0, s>>>(in<float>(a, 0), out<float>(a, 0));
          },
          [](int units) {
            return steps(convolve<R>, kTile * 8, 0, units * (kImage / kTile) * (kImage / kTile));
          }};
}

std::vector<Workload> workloads() {
  const size_t matrix = sizeof(float) * kMatrix * kMatrix;
  const size_t entries = sizeof(float) * kRows * kEntries, rows = sizeof(float) * kRows;
  const size_t segment = sizeof(float) * kSegment, head = sizeof(float) * kSequence * kHead;
  const size_t options = sizeof(float) * kOptions;
  const int shared = 2 * static_cast<int>(head);
  CHECK(cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  return {
      convolution<1>(),
      convolution<6>(),
      {"batched-matmul", {matrix, matrix}, {matrix}, 1.0,
       [](const Arrays& a, int units, cudaStream_t s) {
         multiply<<<units, 256, 0, s>>>(in<float>(a, 0), in<float>(a, 1), out<float>(a, 0));
       },
       [](int units) { return steps(multiply, 256, 0, units); }},
      {"spmv", {entries, entries}, {rows}, 1.0,
       [](const Arrays& a, int units, cudaStream_t s) {
         sparse<<<units * kRows / 8, 256, 0, s>>>(in<float>(a, 0), in<int>(a, 1), g_vector,
                                                  out<float>(a, 0));
       },
       [](int units) { return steps(sparse, 256, 0, units * kRows / 8.0); }},
      {"prefix-sum", {segment}, {segment}, 1.0,
       [](const Arrays& a, int units, cudaStream_t s) {
         scan<<<units, kScanThreads, 0, s>>>(in<float>(a, 0), out<float>(a, 0));
       },
       [](int units) {
         return steps(scan, kScanThreads, 0, units, kSegment / kScanThreads);
       }},
      {"decode", {kCodes}, {4 * kCodes}, 1.0,
       [](const Arrays& a, int units, cudaStream_t s) {
         decode<<<units * kCodes / 256, 256, 0, s>>>(in<unsigned char>(a, 0), out<uchar4>(a, 0),
                                                     g_table);
       },
       [](int units) { return steps(decode, 256, 0, units * kCodes / 256.0); }},
      {"attention", {head, head, head}, {head}, 1.0,
       [shared](const Arrays& a, int units, cudaStream_t s) {
         attend<<<units, kSequence, shared, s>>>(in<float>(a, 0), in<float>(a, 1), in<float>(a, 2),
                                                 out<float>(a, 0));
       },
       [shared](int units) { return steps(attend, kSequence, shared, units); }},
      {"option-prices", {options, options, options}, {options, options}, 1.0,
       [](const Arrays& a, int units, cudaStream_t s) {
         price<<<units * kOptions / 256, 256, 0, s>>>(in<float>(a, 0), in<float>(a, 1),
                                                      in<float>(a, 2), out<float>(a, 0),
                                                      out<float>(a, 1));
       },
       [](int units) { return steps(price, 256, 0, units * kOptions / 256.0); }},
  };
}

// ---- memory, methods, timing ----

struct Memory {
  char *pinned_in, *pinned_out, *pageable_in, *pageable_out, *device_in, *device_out, *expected;
};

struct Place {
  char *in, *out;
};

Arrays at(const Workload& w, const Place& p, int units, int first) {
  Arrays a{};
  char* next = p.in;
  for (size_t i = 0; i < w.in.size(); next += w.in[i++] * units) a.in[i] = next + w.in[i] * first;
  next = p.out;
  for (size_t i = 0; i < w.out.size(); next += w.out[i++] * units)
    a.out[i] = next + w.out[i] * first;
  return a;
}

struct Runner {
  const Workload& w;
  int units;
  const Memory& m;
  std::vector<cudaStream_t>& streams;

  Place device() const { return {m.device_in, m.device_out}; }
  Place pinned() const { return {m.pinned_in, m.pinned_out}; }

  void part(const Place& host, bool mapped_out, int first, int count, cudaStream_t s) const {
    const Arrays from = at(w, host, units, first), on = at(w, device(), units, first);
    Arrays used = on;
    for (size_t i = 0; i < w.in.size(); ++i)
      CHECK(cudaMemcpyAsync(const_cast<char*>(on.in[i]), from.in[i], w.in[i] * count,
                            cudaMemcpyHostToDevice, s));
    if (mapped_out)
      for (size_t i = 0; i < w.out.size(); ++i) used.out[i] = from.out[i];
    w.launch(used, count, s);
    if (mapped_out) return;
    for (size_t i = 0; i < w.out.size(); ++i)
      CHECK(cudaMemcpyAsync(from.out[i], on.out[i], w.out[i] * count, cudaMemcpyDeviceToHost, s));
  }

  void cut(const Place& host, bool mapped_out, int parts) const {
    for (int p = 0; p < parts; ++p) {
      const int first = static_cast<long long>(units) * p / parts;
      const int end = static_cast<long long>(units) * (p + 1) / parts;
      part(host, mapped_out, first, end - first, streams[p]);
    }
  }

  void run(const std::string& method, int parts) const {
    if (method == "Explicit") part(pinned(), false, 0, units, streams[0]);
    if (method == "Pageable")
      part({m.pageable_in, m.pageable_out}, false, 0, units, streams[0]);
    if (method == "Implicit") w.launch(at(w, pinned(), units, 0), units, streams[0]);
    if (method == "Streams") cut(pinned(), false, parts);
    if (method == "Hybrid") cut(pinned(), true, parts);
  }
};

double seconds_of(const std::function<void()>& work) {
  CHECK(cudaDeviceSynchronize());
  const auto begin = std::chrono::steady_clock::now();
  work();
  CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds of the kernel alone, its data in the GPU's memory, in so many launches one after another.
double kernel_seconds(const Runner& r, int parts) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin, r.streams[0]));
  for (int p = 0; p < parts; ++p) {
    const int first = static_cast<long long>(r.units) * p / parts;
    const int last = static_cast<long long>(r.units) * (p + 1) / parts;
    r.w.launch(at(r.w, r.device(), r.units, first), last - first, r.streams[0]);
  }
  CHECK(cudaEventRecord(end, r.streams[0]));
  CHECK(cudaDeviceSynchronize());
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return ms * 1e-3;
}

constexpr int kMostParts = 32;
const int kParts[] = {1, 2, 4, 8, 16, 32};

void write(FILE* file, const std::vector<double>& samples) {
  for (size_t i = 0; i < samples.size(); ++i)
    std::fprintf(file, "%s%.9g", i ? ", " : "", samples[i]);
}

struct Sampled {
  std::string method;
  int parts;
  std::vector<double> samples;
  bool same = true;
};

void measure(FILE* file, const Workload& w, size_t total, const Memory& m,
             std::vector<cudaStream_t>& streams, int rounds) {
  const int units = static_cast<int>(std::max<size_t>(1, total / w.bytes(w.in)));
  const Runner r{w, units, m, streams};
  const size_t out_bytes = w.bytes(w.out) * units;
  std::vector<Sampled> found{{"Explicit", 1, {}}, {"Pageable", 1, {}}, {"Implicit", 1, {}}};
  for (int parts : kParts)
    if (parts <= units) {
      found.push_back({"Streams", parts, {}});
      found.push_back({"Hybrid", parts, {}});
    }
  std::vector<std::vector<double>> kernels(std::size(kParts));
  r.run("Explicit", 1);
  CHECK(cudaDeviceSynchronize());
  std::memcpy(m.expected, m.pinned_out, out_bytes);
  const int repeats = total > (size_t{512} << 20) ? 2 : 5;
  for (int round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < std::size(kParts); ++k)
      if (kParts[k] <= units)
        for (int i = 0; i <= repeats; ++i) {
          const double took = kernel_seconds(r, kParts[k]);
          if (i) kernels[k].push_back(took);
        }
    for (size_t i = 0; i < found.size(); ++i) {
      Sampled& one = found[round % 2 ? found.size() - 1 - i : i];
      char* out = one.method == "Pageable" ? m.pageable_out : m.pinned_out;
      if (round == 0) std::memset(out, 0, out_bytes);
      for (int repeat = 0; repeat <= repeats; ++repeat) {
        const double took = seconds_of([&] { r.run(one.method, one.parts); });
        if (repeat) one.samples.push_back(took);
      }
      if (round == 0) one.same = std::memcmp(out, m.expected, out_bytes) == 0;
    }
  }
  std::fprintf(file,
               "{\"workload\": \"%s\", \"h2d_bytes\": %zu, \"d2h_bytes\": %zu, \"h2d_arrays\": %zu, "
               "\"d2h_arrays\": %zu, \"mapped_reads\": %.4f, \"steps\": %.4g, \"units\": %d,\n  \"kernels\": {",
               w.name.c_str(), w.bytes(w.in) * units, out_bytes, w.in.size(), w.out.size(),
               w.mapped_reads, w.steps(units), units);
  for (size_t k = 0; k < std::size(kParts); ++k)
    if (!kernels[k].empty()) {
      std::fprintf(file, "%s\"%d\": [", k ? ", " : "", kParts[k]);
      write(file, kernels[k]);
      std::fprintf(file, "]");
    }
  std::fprintf(file, "},\n  \"runs\": [");
  for (size_t i = 0; i < found.size(); ++i) {
    std::fprintf(file, "%s\n    {\"method\": \"%s\", \"streams\": %d, \"same\": %s, \"seconds\": [",
                 i ? "," : "", found[i].method.c_str(), found[i].parts,
                 found[i].same ? "true" : "false");
    write(file, found[i].samples);
    std::fprintf(file, "]}");
  }
  std::fprintf(file, "]}");
  std::fflush(file);
}

void fill(char* bytes, size_t count) {
  std::mt19937 random(7);
  auto* values = reinterpret_cast<float*>(bytes);
  std::normal_distribution<float> normal;
  const size_t some = std::min<size_t>(count / sizeof(float), 1 << 22);
  for (size_t i = 0; i < some; ++i) values[i] = normal(random);
  for (size_t done = some; done < count / sizeof(float); done += some)
    std::memcpy(values + done, values, sizeof(float) * std::min(some, count / sizeof(float) - done));
}

// Column numbers of the sparse matrix, in its second array.
void fill_columns(char* bytes, size_t count) {
  std::mt19937 random(11);
  auto* columns = reinterpret_cast<int*>(bytes);
  for (size_t i = 0; i < count / sizeof(int); ++i) columns[i] = static_cast<int>(random() % kVector);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "workloads OUT.json [ROUNDS]\n"), 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 2;
  const size_t sizes[] = {1, 8, 64, 512, 4096};  // MiB to the GPU
  const size_t most_in = size_t{4096} << 20, most_out = size_t{4096} << 20;
  Memory m{};
  CHECK(cudaHostAlloc(&m.pinned_in, most_in, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&m.pinned_out, most_out, cudaHostAllocMapped));
  m.pageable_in = static_cast<char*>(std::malloc(most_in));
  m.pageable_out = static_cast<char*>(std::malloc(most_out));
  m.expected = static_cast<char*>(std::malloc(most_out));
  CHECK(cudaMalloc(&m.device_in, most_in));
  CHECK(cudaMalloc(&m.device_out, most_out));
  std::memset(m.pageable_out, 0, most_out);
  CHECK(cudaMalloc(&g_vector, sizeof(float) * kVector));
  CHECK(cudaMalloc(&g_table, sizeof(float) * 256));
  fill(m.pinned_in, sizeof(float) * kVector);
  CHECK(cudaMemcpy(g_vector, m.pinned_in, sizeof(float) * kVector, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(g_table, m.pinned_in, sizeof(float) * 256, cudaMemcpyHostToDevice));
  std::vector<cudaStream_t> streams(kMostParts);
  for (auto& s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  FILE* file = std::fopen(argv[1], "w");
  if (!file) return std::fprintf(stderr, "cannot write %s\n", argv[1]), 2;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::fprintf(file, "{\"gpu\": \"%s\", \"rounds\": %d, \"cases\": [\n", properties.name, rounds);
  bool first = true;
  for (const Workload& w : workloads())
    for (size_t mib : sizes) {
      const size_t total = mib << 20;
      // what goes back may be more than what goes in; and one size is enough of 4 GiB
      const double ratio = static_cast<double>(w.bytes(w.out)) / w.bytes(w.in);
      if (total * ratio > most_out || (mib == 4096 && w.name != "spmv" && w.name != "prefix-sum"))
        continue;
      fill(m.pinned_in, total);
      if (w.name == "spmv") fill_columns(m.pinned_in + total / 2, total / 2);
      std::memcpy(m.pageable_in, m.pinned_in, total);
      if (!first) std::fprintf(file, ",\n");
      first = false;
      measure(file, w, total, m, streams, rounds);
      std::fprintf(stderr, "%s %zu MiB\n", w.name.c_str(), mib);
    }
  std::fprintf(file, "\n]}\n");
  std::fclose(file);
  return 0;
}
