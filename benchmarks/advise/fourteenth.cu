// Six CUDA C++ programs for the closed loop of advise, the fourteenth set; see fourteenth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o fourteenth benchmarks/advise/fourteenth.cu
//     fourteenth circuit|optics|panorama|parse|isosurface|swarm before|after [STEPS]
//
// circuit: the matrix of a circuit, which never changes, is sent for each solution; after: it stays
// on the GPU. optics: pictures of a sensor go up and commands of a mirror come down, 200 times;
// after: kernels read and write them in mapped host memory. panorama: pictures of six cameras go
// up, and what they are joined to comes down, in the stream of the kernels; after: each direction
// has a stream of its own. parse: four threads read lines of text, and a fifth sends what they
// found, which takes it a tenth of the time: nothing is to be gained; after: pinned memory.
// isosurface: points of a surface come down to pageable memory; after: to pinned memory. swarm:
// the host waits for birds, and works on them while the GPU idles; after: by a call that does not
// wait, so that it works on those of the last frame.

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr uint32_t kAll = 0xffffffff;

// ---- circuit ----
//
// Expected first: keep. A function that solves equations is given a matrix, which it sends, 8 MB of
// pageable memory; only what is added to its diagonal, and the right side, differ from call to
// call. Both, 1 MB each, and the solution, which the host needs, stay as they are.

constexpr int kAcross = 512, kNodes = kAcross * 256, kNodeBlocks = kNodes / kThreads;
constexpr int kDiodes = 1 << 13, kMoments = 5, kMostTries = 6, kIterations = 12;

// Adds up what the threads of a block have, for all of them.
__device__ double block_sum(double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int by = kThreads / 2; by > 0; by /= 2) {
    if (threadIdx.x < by) sums[threadIdx.x] += sums[threadIdx.x + by];
    __syncthreads();
  }
  const double found = sums[0];
  __syncthreads();
  return found;
}

// Adds up what all blocks of a kernel before found.
__device__ double sum_of(const double* parts) {
  double own = 0;
  for (int i = threadIdx.x; i < kNodeBlocks; i += kThreads) own += parts[i];
  return block_sum(own);
}

struct Matrix {
  const int *offsets, *columns;
  const double *values, *more;  // `more` is added to the diagonal
};

__device__ inline double row_times(const Matrix& matrix, int row, const double* given) {
  double sum = matrix.more[row] * given[row];
  for (int i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i)
    sum += matrix.values[i] * given[matrix.columns[i]];
  return sum;
}

__device__ inline double diagonal(const Matrix& matrix, int row) {
  double found = matrix.more[row];
  for (int i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i)
    if (matrix.columns[i] == row) found += matrix.values[i];
  return found;
}

// What conjugate gradients need, of each node, and sums of each block.
struct Gradients {
  double *solution, *rest, *direction, *product, *inverse;
  double *rests[2], *steep;  // sums
};

// Begins conjugate gradients, from the last solution.
__global__ void begin(Matrix matrix, const double* right, Gradients gradients) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const double rest = right[row] - row_times(matrix, row, gradients.solution);
  const double inverse = 1 / diagonal(matrix, row);
  gradients.rest[row] = rest;
  gradients.inverse[row] = inverse;
  gradients.direction[row] = rest * inverse;
  const double sum = block_sum(rest * rest * inverse);
  if (threadIdx.x == 0) gradients.rests[0][blockIdx.x] = sum;
}

__global__ void multiply(Matrix matrix, Gradients gradients) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const double product = row_times(matrix, row, gradients.direction);
  gradients.product[row] = product;
  const double sum = block_sum(product * gradients.direction[row]);
  if (threadIdx.x == 0) gradients.steep[blockIdx.x] = sum;
}

__global__ void go(Gradients gradients, int turn) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const double steep = sum_of(gradients.steep);
  const double far = steep > 0 ? sum_of(gradients.rests[turn % 2]) / steep : 0;
  gradients.solution[row] += far * gradients.direction[row];
  const double rest = gradients.rest[row] - far * gradients.product[row];
  gradients.rest[row] = rest;
  const double sum = block_sum(rest * rest * gradients.inverse[row]);
  if (threadIdx.x == 0) gradients.rests[(turn + 1) % 2][blockIdx.x] = sum;
}

__global__ void bend(Gradients gradients, int turn) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const double old = sum_of(gradients.rests[turn % 2]);
  const double share = old > 0 ? sum_of(gradients.rests[(turn + 1) % 2]) / old : 0;
  gradients.direction[row] =
      gradients.rest[row] * gradients.inverse[row] + share * gradients.direction[row];
}

struct Circuit {
  // Currents are in mA, voltages in V, so that conductances are in mS; a capacitor at each node
  // counts as a conductance, too, as long as a moment is.
  static constexpr double kStored = 1.5, kLeak = 0.5, kHot = 0.05, kLeast = 1e-4, kMostVolts = 0.6;
  std::vector<int> offsets{0}, columns, diodes;
  std::vector<double> values, more = std::vector<double>(kNodes), right = more, volts = more;
  std::vector<double> old = more;
  int *offsets_above = nullptr, *columns_above = nullptr;
  double *values_above = nullptr, *more_above = above<double>(kNodes);
  double* right_above = above<double>(kNodes);
  Gradients gradients{};
  bool stay;
  int time = 0;
  Random random{1};

  explicit Circuit(bool stay) : stay(stay) {
    std::vector<double> to_right(kNodes), down(kNodes);
    for (int i = 0; i < kNodes; ++i) {
      to_right[i] = i % kAcross == kAcross - 1 ? 0 : random.between(0.5f, 1.5f);
      down[i] = i + kAcross >= kNodes ? 0 : random.between(0.5f, 1.5f);
    }
    for (int i = 0; i < kNodes; ++i) {
      const double up = i < kAcross ? 0 : down[i - kAcross], left = i == 0 ? 0 : to_right[i - 1];
      put(i - kAcross, -up);
      put(i - 1, -left);
      put(i, kStored + kLeak + up + left + to_right[i] + down[i]);
      put(i + 1, -to_right[i]);
      put(i + kAcross, -down[i]);
      offsets.push_back(static_cast<int>(columns.size()));
    }
    for (int i = 0; i < kDiodes; ++i) diodes.push_back(i * (kNodes / kDiodes) + random.below(16));
    offsets_above = above(offsets);
    columns_above = above(columns);
    values_above = above(values);
    for (double** one : {&gradients.solution, &gradients.rest, &gradients.direction,
                         &gradients.product, &gradients.inverse})
      *one = above<double>(kNodes);
    for (double** one : {&gradients.rests[0], &gradients.rests[1], &gradients.steep})
      *one = above<double>(kNodeBlocks);
    CHECK(cudaDeviceSynchronize());
  }

  void put(int column, double value) {
    if (value == 0) return;
    columns.push_back(column);
    values.push_back(value);
  }

  template <class T>
  static void send(T* to, const std::vector<T>& from) {
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

  // Finds the voltages of all nodes.
  void solve() {
    if (!stay) {
      send(offsets_above, offsets);
      send(columns_above, columns);
      send(values_above, values);
    }
    send(more_above, more);
    send(right_above, right);
    const Matrix matrix = {offsets_above, columns_above, values_above, more_above};
    begin<<<kNodeBlocks, kThreads>>>(matrix, right_above, gradients);
    for (int turn = 0; turn < kIterations; ++turn) {
      multiply<<<kNodeBlocks, kThreads>>>(matrix, gradients);
      go<<<kNodeBlocks, kThreads>>>(gradients, turn);
      bend<<<kNodeBlocks, kThreads>>>(gradients, turn);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(volts.data(), gradients.solution, kNodes * sizeof(double),
                     cudaMemcpyDeviceToHost));
  }

  // Puts diodes as they are near the voltages of now, in place of what they were.
  void linearize(const std::vector<double>& fixed) {
    for (const int node : diodes) {
      const double at = std::min(volts[node], kMostVolts);
      const double grows = kLeast * std::exp(at / kHot);
      const double slope = grows / kHot;
      more[node] = slope;
      right[node] = fixed[node] - (grows - kLeast - slope * at);
    }
  }

  // Takes the circuit on by a moment (of Newton); returns how often it was solved.
  int live() {
    ++time;
    for (int i = 0; i < kNodes; ++i) right[i] = kStored * volts[i];
    for (int i = 0; i < kNodes; i += 64)
      right[i] += 20 + 15 * std::sin(0.05 * time + 0.001 * (i % 4096));
    const std::vector<double> fixed = right;
    double moved = 1;
    int tries = 0;
    while (tries < kMostTries && moved > 1e-5) {
      linearize(fixed);
      old = volts;
      solve();
      ++tries;
      moved = 0;
      for (const int node : diodes) moved = std::max(moved, std::fabs(volts[node] - old[node]));
    }
    return tries;
  }

  // Returns how often it was solved, and some voltages, by a sum.
  double run() {
    double sum = 0;
    for (int i = 0; i < kMoments; ++i) sum += live();
    for (int i = 0; i < kNodes; i += 7) sum += volts[i];
    return sum;
  }
};

// ---- optics ----
//
// Expected first: mapped. Each millisecond a telescope's sensor has a picture, 8 KB, from which
// follow commands, 4 KB, for a mirror, around three kernels of 3 to 10 µs. All is pinned, and what
// the sensor shows next depends on the commands, so that only what the copies cost can go.

constexpr int kSide = 32, kLenses = kSide * kSide, kTicks = 200, kStrip = 4096;

// Finds how far off the light is behind each lens, from the four pixels there; a thread a lens.
__global__ void calibrate(const ushort4* picture, const float2* still, float* slopes) {
  const ushort4 four = picture[threadIdx.x];
  const float all = fmaxf(static_cast<float>(four.x + four.y + four.z + four.w), 1);
  const float2 off = still[threadIdx.x];
  slopes[threadIdx.x] = (four.y + four.w - four.x - four.z) / all - off.x;
  slopes[kLenses + threadIdx.x] = (four.z + four.w - four.x - four.y) / all - off.y;
}

// Finds how the light came in from how it leans at each lens; a warp for each part of the mirror.
__global__ void reconstruct(const float* matrix, const float* slopes, float* shape) {
  const int part = (blockIdx.x * kThreads + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  float sum = 0;
  for (int i = lane; i < 2 * kLenses; i += kWarp) sum += matrix[part * 2 * kLenses + i] * slopes[i];
  for (int by = kWarp / 2; by > 0; by /= 2) sum += __shfl_xor_sync(kAll, sum, by);
  if (lane == 0) shape[part] = sum;
}

// Moves the mirror towards that shape.
__global__ void command(const float* shape, float gain, float* held, float* commands) {
  const int part = blockIdx.x * kThreads + threadIdx.x;
  const float found = fminf(fmaxf(0.98f * held[part] + gain * shape[part], -40), 40);
  held[part] = found;
  commands[part] = found;
}

struct Optics {
  ushort4 *picture = below<ushort4>(true, kLenses), *picture_above = nullptr;
  float *commands = below<float>(true, kLenses), *commands_above = nullptr;
  float2* still = above<float2>(kLenses);
  float *slopes = above<float>(2 * kLenses), *shape = above<float>(kLenses);
  float *held = above<float>(kLenses), *matrix = nullptr;
  std::vector<float2> air = std::vector<float2>(static_cast<size_t>(kSide) * kStrip);
  cudaStream_t stream = new_stream();
  bool mapped;
  float gain = 0.3f;
  int tick = 0;

  explicit Optics(bool mapped)
      : picture_above(mapped ? picture : above<ushort4>(kLenses)),
        commands_above(mapped ? commands : above<float>(kLenses)),
        mapped(mapped) {
    for (int i = 0; i < kSide * kStrip; ++i) {
      const float x = 6.2831853f * static_cast<float>(i % kStrip) / kStrip;
      const float y = 0.19634954f * static_cast<float>(i / kStrip);
      air[i] = {0.8f * std::sin(97 * x + y) + 0.5f * std::cos(211 * x - 2 * y),
                0.7f * std::cos(61 * x + 2 * y) + 0.4f * std::sin(173 * x + y)};
    }
    std::vector<float> rows(2 * static_cast<size_t>(kLenses) * kLenses);
    for (int part = 0; part < kLenses; ++part)
      for (int lens = 0; lens < kLenses; ++lens) {
        const float right = static_cast<float>(part % kSide - lens % kSide);
        const float down = static_cast<float>(part / kSide - lens / kSide);
        const float by = 1 / (6.2831853f * (right * right + down * down + 0.5f));
        rows[static_cast<size_t>(part) * 2 * kLenses + lens] = 8 * right * by;
        rows[static_cast<size_t>(part) * 2 * kLenses + kLenses + lens] = 8 * down * by;
      }
    matrix = above(rows);
    CHECK(cudaDeviceSynchronize());
  }

  // Takes a picture of light that came through air, which wind moves on, and by the mirror.
  void expose() {
    const auto bent = [&](int one, int other) { return 0.5f * (commands[one] - commands[other]); };
    const auto bright = [](float part) {
      return static_cast<unsigned short>(1000 * std::min(std::max(1 + part, 0.0f), 8.0f));
    };
    for (int lens = 0; lens < kLenses; ++lens) {
      const int x = lens % kSide, y = lens / kSide;
      const float2 of_air = air[y * kStrip + (x + tick) % kStrip];
      const float right = of_air.x - bent(lens + (x + 1 < kSide), lens - (x > 0));
      const float down = of_air.y - bent(lens + (y + 1 < kSide) * kSide, lens - (y > 0) * kSide);
      const float to_x = 0.1f * right, to_y = 0.1f * down;
      picture[lens] = {bright(-to_x - to_y), bright(to_x - to_y), bright(to_y - to_x),
                       bright(to_x + to_y)};
    }
  }

  // Finds the mirror's commands by the picture.
  void correct() {
    if (!mapped)
      CHECK(cudaMemcpyAsync(picture_above, picture, kLenses * sizeof(ushort4),
                            cudaMemcpyHostToDevice, stream));
    calibrate<<<1, kLenses, 0, stream>>>(picture_above, still, slopes);
    reconstruct<<<kLenses * kWarp / kThreads, kThreads, 0, stream>>>(matrix, slopes, shape);
    command<<<kLenses / kThreads, kThreads, 0, stream>>>(shape, gain, held, commands_above);
    CHECK(cudaGetLastError());
    if (!mapped)
      CHECK(cudaMemcpyAsync(commands, commands_above, kLenses * sizeof(float),
                            cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
  }

  // Returns how the mirror was bent, by a sum.
  double run() {
    double sum = 0;
    for (int i = 0; i < kTicks; ++i, ++tick) {
      expose();
      correct();
      double most = 0, all = 0;
      for (int part = 0; part < kLenses; ++part) {
        const double bent = std::fabs(commands[part]);
        most = std::max(most, bent);
        all += bent;
      }
      // A mirror that is near its end moves less.
      if (tick % 64 == 0) gain = most > 30 ? 0.1f : 0.3f;
      sum += all;
    }
    return sum;
  }
};

// ---- panorama ----
//
// Expected first: streams (which some call prefetch). 50 MB of six cameras go up, and 34 MB of a
// panorama come down, both of pinned memory, and the host launches a frame ahead; but all are in
// one stream, so that the link has one direction at a time, and idles while kernels run.

constexpr int kCameras = 6, kWide = 1920, kHigh = 1080, kPixels = kWide * kHigh;
constexpr int kRound = 4096, kFlat = 2048, kPanorama = kRound * kFlat, kFrames = 8, kStored = 4;
constexpr int kMeterBlocks = 64;

struct Gains {
  float of[kCameras];
};

// Adds up how bright each camera's picture is.
__global__ void meter(const uchar4* pictures, unsigned long long* bright) {
  __shared__ unsigned int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  const uchar4* own = pictures + static_cast<size_t>(blockIdx.y) * kPixels;
  unsigned int part = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < kPixels; i += kMeterBlocks * kThreads)
    part += own[i].x + 2 * own[i].y + own[i].z;
  atomicAdd(&sum, part);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(bright + blockIdx.y, static_cast<unsigned long long>(sum));
}

// Joins the pictures of six cameras, which look to all sides; a thread a pixel.
__global__ void join(const uchar4* pictures, Gains gains, uchar4* panorama) {
  const int pixel = blockIdx.x * kThreads + threadIdx.x;
  const float turn = (pixel % kRound + 0.5f) * (6.2831853f / kRound);
  const float tilt = (pixel / kRound + 0.5f) * (3.14159265f / kFlat) - 1.57079633f;
  const float to[3] = {cosf(tilt) * cosf(turn), cosf(tilt) * sinf(turn), sinf(tilt)};
  float red = 0, green = 0, blue = 0, weights = 0;
#pragma unroll
  for (int camera = 0; camera < kCameras; ++camera) {
    const int axis = camera / 2;
    const float ahead = camera % 2 == 0 ? to[axis] : -to[axis];
    if (ahead < 0.3f) continue;
    const float right = to[(axis + 1) % 3] / ahead / 1.3f, up = to[(axis + 2) % 3] / ahead / 1.3f;
    if (fabsf(right) >= 1 || fabsf(up) >= 1) continue;
    const float weight = (1 - fabsf(right)) * (1 - fabsf(up)) + 1e-3f;
    const int column = static_cast<int>((right + 1) * 0.5f * (kWide - 1) + 0.5f);
    const int row = static_cast<int>((up + 1) * 0.5f * (kHigh - 1) + 0.5f);
    const uchar4 seen = pictures[static_cast<size_t>(camera) * kPixels + row * kWide + column];
    const float by = weight * gains.of[camera];
    red += by * seen.x, green += by * seen.y, blue += by * seen.z;
    weights += weight;
  }
  const auto level = [&](float sum) {
    return static_cast<unsigned char>(fminf(sum / fmaxf(weights, 1e-3f), 255));
  };
  panorama[pixel] = make_uchar4(level(red), level(green), level(blue), 255);
}

struct Panorama {
  struct Place {
    uchar4* pictures = above<uchar4>(static_cast<size_t>(kCameras) * kPixels);
    uchar4 *panorama = below<uchar4>(true, kPanorama), *panorama_above = above<uchar4>(kPanorama);
    unsigned long long* bright = below<unsigned long long>(true, kCameras);
    unsigned long long* bright_above = above<unsigned long long>(kCameras);
    cudaEvent_t sent = new_event(), joined = new_event(), there = new_event();
  };
  std::array<Place, 2> places;
  // Where the cameras' driver puts pictures, in turn.
  std::array<std::array<uchar4*, kCameras>, kStored> taken{};
  cudaStream_t main = new_stream(), up = main, down = main;
  Gains gains{};
  int frame = 0;

  explicit Panorama(bool own_streams) {
    if (own_streams) up = new_stream(), down = new_stream();
    Random random{2};
    for (auto& pictures : taken)
      for (uchar4*& picture : pictures) {
        picture = below<uchar4>(true, kPixels);
        const int bright = 40 + random.below(120);
        for (int i = 0; i < kPixels; ++i) {
          const uint32_t bits = random.next();
          const auto grey = static_cast<unsigned char>(bright + (i / 32 + i / kWide / 32) % 2 * 30);
          picture[i] = {grey, static_cast<unsigned char>(grey + bits % 16),
                        static_cast<unsigned char>(grey + bits / 16 % 16), 255};
        }
      }
    std::fill(gains.of, gains.of + kCameras, 1.0f);
    CHECK(cudaDeviceSynchronize());
  }

  // Launches all that a frame needs; that two before it, of the same place, was looked at.
  void start(int number) {
    Place& place = places[number % 2];
    for (int camera = 0; camera < kCameras; ++camera) {
      uchar4* picture = taken[number % kStored][camera];
      picture[0].x = static_cast<unsigned char>(number);  // by the camera
      CHECK(cudaMemcpyAsync(place.pictures + static_cast<size_t>(camera) * kPixels, picture,
                            kPixels * sizeof(uchar4), cudaMemcpyHostToDevice, up));
    }
    CHECK(cudaEventRecord(place.sent, up));
    CHECK(cudaStreamWaitEvent(main, place.sent));
    CHECK(cudaMemsetAsync(place.bright_above, 0, kCameras * sizeof(place.bright[0]), main));
    meter<<<dim3(kMeterBlocks, kCameras), kThreads, 0, main>>>(place.pictures, place.bright_above);
    join<<<kPanorama / kThreads, kThreads, 0, main>>>(place.pictures, gains, place.panorama_above);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(place.joined, main));
    CHECK(cudaStreamWaitEvent(down, place.joined));
    CHECK(cudaMemcpyAsync(place.panorama, place.panorama_above, kPanorama * sizeof(uchar4),
                          cudaMemcpyDeviceToHost, down));
    CHECK(cudaMemcpyAsync(place.bright, place.bright_above, kCameras * sizeof(place.bright[0]),
                          cudaMemcpyDeviceToHost, down));
    CHECK(cudaEventRecord(place.there, down));
  }

  // Returns the sum of some pixels of a frame, once it is there, and sets the gains of the next
  // one to be launched.
  double look_at(int number) {
    const Place& place = places[number % 2];
    CHECK(cudaEventSynchronize(place.there));
    for (int camera = 0; camera < kCameras; ++camera)
      gains.of[camera] =
          static_cast<float>(110.0 * 4 * kPixels / (static_cast<double>(place.bright[camera]) + 1));
    double sum = 0;
    for (int i = 0; i < kPanorama; i += 509)
      sum += place.panorama[i].x + place.panorama[i].y + place.panorama[i].z;
    return sum;
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kFrames; ++i, ++frame) {
      start(frame);
      if (frame > 0) sum += look_at(frame - 1);
    }
    return sum;
  }
};

// ---- parse ----
//
// Expected: no advice. 150 KB of pageable memory for each of 40 parts of a log look like some to
// pin, and the thread that sends them waits for each; but four threads take some milliseconds each
// to read lines, so that it waits for them nearly all the time.

constexpr int kParsers = 4, kParts = 40, kTexts = 100, kPartBytes = 1 << 19, kServers = 256;
constexpr int kMostLines = kPartBytes / 32, kSlots = 8;

struct Record {
  int server, code, bytes, micros;
};

// Adds records to what each server has: requests, those that failed, bytes, and time.
__global__ void tally(const Record* records, int count, unsigned long long* table) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const Record one = records[i];
  unsigned long long* own = table + one.server * 4;
  atomicAdd(own, 1ull);
  if (one.code >= 500) atomicAdd(own + 1, 1ull);
  atomicAdd(own + 2, static_cast<unsigned long long>(one.bytes));
  atomicAdd(own + 3, static_cast<unsigned long long>(one.micros));
}

// Numbers that threads hand over to each other.
class Handover {
 public:
  void put(int number) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      numbers.push_back(number);
    }
    filled.notify_one();
  }

  int take() {
    std::unique_lock<std::mutex> lock(mutex);
    filled.wait(lock, [&] { return !numbers.empty(); });
    const int number = numbers.front();
    numbers.pop_front();
    return number;
  }

 private:
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<int> numbers;
};

struct Parse {
  struct Slot {
    Record* records;  // on the host
    int count = 0;
  };
  std::vector<Slot> slots;
  std::vector<std::string> texts = std::vector<std::string>(kTexts);
  std::unordered_map<std::string, int> servers;
  Record* records_above = above<Record>(kMostLines);
  unsigned long long* table_above = above<unsigned long long>(kServers * 4);
  std::vector<unsigned long long> table = std::vector<unsigned long long>(kServers * 4);
  int first = 0;
  Random random{3};

  explicit Parse(bool pinned) {
    for (int i = 0; i < kSlots; ++i) slots.push_back({below<Record>(pinned, kMostLines)});
    for (int i = 0; i < kServers; ++i) servers[name_of(i)] = i;
    for (std::string& text : texts) write_log(text);
    CHECK(cudaDeviceSynchronize());
  }

  static std::string name_of(int server) {
    return "web-" + std::to_string(server * 7 % kServers) + ".example.org";
  }

  void write_log(std::string& text) {
    constexpr std::array<int, 4> kCodes = {200, 200, 404, 503};
    std::array<char, 128> line{};
    while (true) {
      const std::string name = name_of(random.below(kServers));
      const int length = std::snprintf(line.data(), line.size(), "%s GET /a/%d %d %d %.6f\n",
                                       name.c_str(), random.below(100000), kCodes[random.below(4)],
                                       random.below(1 << 20), random.between(0, 2));
      if (text.size() + length > kPartBytes) return;
      text.append(line.data(), length);
    }
  }

  // Reads the lines of a part of the log.
  void read(const std::string& text, Slot& slot) const {
    slot.count = 0;
    const char* at = text.data();
    const char* end = at + text.size();
    while (at < end) {
      const auto* space = static_cast<const char*>(std::memchr(at, ' ', end - at));
      Record& found = slot.records[slot.count++];
      found.server = servers.at(std::string(at, space));
      const auto* path = static_cast<const char*>(std::memchr(space + 1, ' ', end - space - 1));
      const auto* code = static_cast<const char*>(std::memchr(path + 1, ' ', end - path - 1));
      char* next = nullptr;
      found.code = static_cast<int>(std::strtol(code + 1, &next, 10));
      found.bytes = static_cast<int>(std::strtol(next, &next, 10));
      found.micros = static_cast<int>(std::lround(1e6 * std::strtod(next, &next)));
      at = next + 1;
    }
  }

  // Adds what a slot holds to the table.
  void add(const Slot& slot) {
    CHECK(cudaMemcpy(records_above, slot.records, slot.count * sizeof(Record),
                     cudaMemcpyHostToDevice));
    tally<<<(slot.count + kThreads - 1) / kThreads, kThreads>>>(records_above, slot.count,
                                                                table_above);
    CHECK(cudaGetLastError());
  }

  // Returns which servers are how busy, by a sum.
  double run() {
    Handover parts, free, ready;
    for (int i = 0; i < kParts; ++i) parts.put((first + i) % kTexts);
    for (int i = 0; i < kParsers; ++i) parts.put(-1);
    for (int i = 0; i < kSlots; ++i) free.put(i);
    first = (first + kParts) % kTexts;
    const auto work = [&] {
      for (int part = parts.take(); part >= 0; part = parts.take()) {
        const int slot = free.take();
        read(texts[part], slots[slot]);
        ready.put(slot);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kParsers; ++i) threads.emplace_back(work);
    CHECK(cudaMemsetAsync(table_above, 0, table.size() * sizeof(table[0]), nullptr));
    for (int i = 0; i < kParts; ++i) {
      const int slot = ready.take();
      add(slots[slot]);
      free.put(slot);
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(cudaMemcpy(table.data(), table_above, table.size() * sizeof(table[0]),
                     cudaMemcpyDeviceToHost));
    double sum = 0;
    for (size_t i = 0; i < table.size(); ++i)
      sum += static_cast<double>(table[i]) * static_cast<double>(1 + i % 13);
    return sum;
  }
};

// ---- isosurface ----
//
// Expected first: pin. Points where a surface crosses the edges of a grid, some 4 MB, come down to
// pageable memory, which takes longer than kernels do. How many they are the host has to know
// before, and chooses the next surface by it.

constexpr int kGrid = 192, kGridPoints = kGrid * kGrid * kGrid,
              kGridBlocks = kGridPoints / kThreads;
constexpr int kBalls = 48, kSurfaces = 8, kMostPoints = 2 << 20, kWanted = 230000;

// Finds how dense it is at each point of the grid.
__global__ void fill(const float4* balls, float* field) {
  __shared__ float4 near[kBalls];
  if (threadIdx.x < kBalls) near[threadIdx.x] = balls[threadIdx.x];
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float x = i % kGrid, y = i / kGrid % kGrid, z = i / (kGrid * kGrid);
  float sum = 0;
  for (const float4& ball : near) {
    const float right = x - ball.x, up = y - ball.y, far = z - ball.z;
    const float part = 1 - (right * right + up * up + far * far) / (ball.w * ball.w);
    if (part > 0) sum += part * part * part;
  }
  field[i] = sum;
}

// Returns in which directions, a bit each, the surface crosses the edges from a point.
__device__ inline int crossings(const float* field, int i, float level) {
  const int x = i % kGrid, y = i / kGrid % kGrid, z = i / (kGrid * kGrid);
  const bool inside = field[i] > level;
  int found = 0;
  if (x + 1 < kGrid && (field[i + 1] > level) != inside) found |= 1;
  if (y + 1 < kGrid && (field[i + kGrid] > level) != inside) found |= 2;
  if (z + 1 < kGrid && (field[i + kGrid * kGrid] > level) != inside) found |= 4;
  return found;
}

// Adds up what the threads of a block before each have, and it.
__device__ int scanned(int own) {
  __shared__ int sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int by = 1; by < kThreads; by *= 2) {
    const int before = threadIdx.x >= by ? sums[threadIdx.x - by] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  return sums[threadIdx.x];
}

// Counts the points of each block.
__global__ void tell(const float* field, float level, int* counts) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int sum = scanned(__popc(crossings(field, i, level)));
  if (threadIdx.x == kThreads - 1) counts[blockIdx.x] = sum;
}

// Finds where the points of each block begin, and behind these places how many there are.
__global__ void place_blocks(const int* counts, int* starts) {
  constexpr int kEach = kGridBlocks / kThreads;
  static_assert(kEach * kThreads == kGridBlocks);
  const int first = threadIdx.x * kEach;
  int own = 0;
  for (int i = 0; i < kEach; ++i) own += counts[first + i];
  int sum = scanned(own) - own;
  for (int i = 0; i < kEach; ++i) {
    starts[first + i] = sum;
    sum += counts[first + i];
  }
  if (threadIdx.x == kThreads - 1) starts[kGridBlocks] = sum;
}

// Puts points where the surface crosses edges.
__global__ void emit(const float* field, float level, const int* starts, float4* points) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int found = crossings(field, i, level), count = __popc(found);
  int at = starts[blockIdx.x] + scanned(count) - count;
  const int apart[3] = {1, kGrid, kGrid * kGrid};
  for (int axis = 0; axis < 3; ++axis) {
    if ((found >> axis & 1) == 0 || at >= kMostPoints) continue;
    const float here = field[i], there = field[i + apart[axis]];
    const float part = (level - here) / (there - here);
    float4 point = make_float4(i % kGrid, i / kGrid % kGrid, i / (kGrid * kGrid), there - here);
    (axis == 0 ? point.x : axis == 1 ? point.y : point.z) += part;
    points[at++] = point;
  }
}

struct Isosurface {
  float4 *points, *points_above = above<float4>(kMostPoints);
  float4* balls_above = above<float4>(kBalls);
  float* field = above<float>(kGridPoints);
  int *counts = above<int>(kGridBlocks), *starts = above<int>(kGridBlocks + 1);
  std::array<float4, kBalls> balls{};
  float level = 0.25f;
  int time = 0;

  explicit Isosurface(bool pinned) : points(below<float4>(pinned, kMostPoints)) {
    CHECK(cudaDeviceSynchronize());
  }

  void move_balls() {
    ++time;
    for (int i = 0; i < kBalls; ++i) {
      const double turn = 0.02 * time + i;
      balls[i] = {static_cast<float>(96 + 60 * std::sin(turn * (1 + i % 3 * 0.2) + i)),
                  static_cast<float>(96 + 60 * std::cos(turn * 0.7 + 2 * i)),
                  static_cast<float>(96 + 60 * std::sin(turn * 0.5 + 3 * i)),
                  static_cast<float>(24 + i % 16)};
    }
    CHECK(cudaMemcpy(balls_above, balls.data(), sizeof(balls), cudaMemcpyHostToDevice));
  }

  // Puts the points of a surface on the host; returns how many they are.
  int extract() {
    fill<<<kGridBlocks, kThreads>>>(balls_above, field);
    tell<<<kGridBlocks, kThreads>>>(field, level, counts);
    place_blocks<<<1, kThreads>>>(counts, starts);
    emit<<<kGridBlocks, kThreads>>>(field, level, starts, points_above);
    CHECK(cudaGetLastError());
    int count = 0;
    CHECK(cudaMemcpy(&count, starts + kGridBlocks, sizeof(count), cudaMemcpyDeviceToHost));
    count = std::min(count, kMostPoints);
    CHECK(cudaMemcpy(points, points_above, count * sizeof(float4), cudaMemcpyDeviceToHost));
    return count;
  }

  // Returns how many points there are, and where some of them are, by a sum.
  double run() {
    double sum = 0;
    for (int surface = 0; surface < kSurfaces; ++surface) {
      move_balls();
      const int count = extract();
      for (int i = 0; i < count; i += 5)
        sum += points[i].x + 2 * points[i].y + 3 * points[i].z + points[i].w;
      sum += count;
      level = std::min(std::max(level * (count > kWanted ? 1.01f : 0.99f), 0.1f), 0.9f);
    }
    return sum;
  }
};

// ---- swarm ----
//
// Expected first: async (which some call defer). Birds, 512 KiB, come to pinned memory by a call
// that waits for the kernels; then the host files them and looks where they crowd, as long as the
// kernels took, while the GPU idles. A hawk comes there two frames later only.

constexpr int kBirds = 1 << 15, kOfBirds = 128, kShots = 16, kFields = 96;
constexpr float kWorld = 960, kField = kWorld / kFields;

// Finds where each bird turns to: as those near it do, and not too near to them, nor to a hawk.
__global__ void flock(const float4* birds, const float4* speeds, float4 hawk, float4* turned) {
  __shared__ float4 near[kOfBirds], near_speeds[kOfBirds];
  const int own = blockIdx.x * kOfBirds + threadIdx.x;
  const float4 here = birds[own], speed = speeds[own];
  float4 push = make_float4(0, 0, 0, 0), like = push;
  for (int first = 0; first < kBirds; first += kOfBirds) {
    near[threadIdx.x] = birds[first + threadIdx.x];
    near_speeds[threadIdx.x] = speeds[first + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < kOfBirds; ++i) {
      const float right = here.x - near[i].x, up = here.y - near[i].y, far = here.z - near[i].z;
      const float apart = right * right + up * up + far * far;
      const float by = __fdividef(1.0f, 20 + apart), pull = apart < 900 ? 1.0f : 0.0f;
      const float away = by * by * 40 - 0.002f * pull * by;
      push.x += away * right, push.y += away * up, push.z += away * far;
      like.x += pull * near_speeds[i].x, like.y += pull * near_speeds[i].y;
      like.z += pull * near_speeds[i].z, like.w += pull;
    }
    __syncthreads();
  }
  const float right = here.x - hawk.x, up = here.y - hawk.y, far = here.z - hawk.z;
  const float fear = hawk.w / (100 + right * right + up * up + far * far);
  const float share = 0.1f / fmaxf(like.w, 1);
  const float home = 2e-4f;
  float4 found;
  found.x = 0.9f * speed.x + share * like.x + push.x + fear * right - home * (here.x - kWorld / 2);
  found.y = 0.9f * speed.y + share * like.y + push.y + fear * up - home * (here.y - kWorld / 2);
  found.z = 0.9f * speed.z + share * like.z + push.z + fear * far - home * (here.z - kWorld / 2);
  found.w = 0;
  turned[own] = found;
}

// Moves birds, none of which is faster than it can be.
__global__ void fly(float4* birds, float4* speeds, const float4* turned) {
  const int own = blockIdx.x * kOfBirds + threadIdx.x;
  float4 speed = turned[own];
  const float fast = sqrtf(speed.x * speed.x + speed.y * speed.y + speed.z * speed.z);
  const float by = 3 / fmaxf(fast, 3);
  speed.x *= by, speed.y *= by, speed.z *= by;
  birds[own].x += speed.x, birds[own].y += speed.y, birds[own].z += speed.z;
  speeds[own] = speed;
}

struct Swarm {
  struct Place {
    float4* birds = below<float4>(true, kBirds);
    cudaEvent_t there = new_event();
  };
  std::array<Place, 2> places;
  float4 *birds_above = nullptr, *speeds = nullptr, *turned = above<float4>(kBirds);
  std::array<float4, 4> hawks{};  // of frames to come
  std::vector<std::array<int, 3>> filed = std::vector<std::array<int, 3>>(kBirds);
  std::vector<uint8_t> file = std::vector<uint8_t>(static_cast<size_t>(kBirds) * 3 * 5);
  std::vector<int> crowds = std::vector<int>(kFields * kFields);
  bool late;
  int frame = 0;

  explicit Swarm(bool late) : late(late) {
    Random random{4};
    std::vector<float4> birds(kBirds), fast(kBirds);
    for (float4& one : birds)
      one = {random.between(200, 760), random.between(200, 760), random.between(200, 760), 0};
    for (float4& one : fast)
      one = {random.between(-1, 1), random.between(-1, 1), random.between(-1, 1), 0};
    birds_above = above(birds);
    speeds = above(fast);
    CHECK(cudaDeviceSynchronize());
  }

  // Launches what a frame needs, and fetches it, or begins to.
  void start(int number) {
    flock<<<kBirds / kOfBirds, kOfBirds>>>(birds_above, speeds, hawks[number % 4], turned);
    fly<<<kBirds / kOfBirds, kOfBirds>>>(birds_above, speeds, turned);
    CHECK(cudaGetLastError());
    const Place& place = places[number % 2];
    constexpr size_t kBytes = kBirds * sizeof(float4);
    if (!late) {
      CHECK(cudaMemcpy(place.birds, birds_above, kBytes, cudaMemcpyDeviceToHost));
      return;
    }
    CHECK(cudaMemcpyAsync(place.birds, birds_above, kBytes, cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaEventRecord(place.there, nullptr));
  }

  // Files how far each bird moved, in as few bytes as it takes; returns how many these are.
  size_t file_birds(const float4* birds) {
    uint8_t* to = file.data();
    for (int i = 0; i < kBirds; ++i) {
      const std::array<float, 3> at = {birds[i].x, birds[i].y, birds[i].z};
      for (int axis = 0; axis < 3; ++axis) {
        const int now = static_cast<int>(std::lrint(64 * at[axis]));
        const int moved = now - std::exchange(filed[i][axis], now);
        auto bits = static_cast<uint32_t>(moved) << 1 ^ static_cast<uint32_t>(moved >> 31);
        for (; bits >= 128; bits >>= 7) *to++ = static_cast<uint8_t>(bits | 128);
        *to++ = static_cast<uint8_t>(bits);
      }
    }
    return to - file.data();
  }

  // Returns the middle of the field with the most birds, seen from above.
  float4 fullest(const float4* birds) {
    std::fill(crowds.begin(), crowds.end(), 0);
    const auto field = [](float at) {
      return std::min(std::max(static_cast<int>(at / kField), 0), kFields - 1);
    };
    for (int i = 0; i < kBirds; ++i) ++crowds[field(birds[i].y) * kFields + field(birds[i].x)];
    const auto most = std::max_element(crowds.begin(), crowds.end()) - crowds.begin();
    return {(static_cast<float>(most % kFields) + 0.5f) * kField,
            (static_cast<float>(most / kFields) + 0.5f) * kField, kWorld / 2, 0};
  }

  // Works on the birds of a frame, once they are there; a hawk comes in every eighth frame.
  double look_at(int number) {
    const Place& place = places[number % 2];
    if (late) CHECK(cudaEventSynchronize(place.there));
    const size_t bytes = file_birds(place.birds);
    float4 hawk = fullest(place.birds);
    if (number % 8 == 0) hawk.w = 100;
    hawks[(number + 2) % 4] = hawk;
    double sum = hawk.x + hawk.y + static_cast<double>(bytes);
    for (size_t i = 0; i < bytes; i += 3) sum += file[i];
    return sum;
  }

  double run() {
    double sum = 0;
    for (int shot = 0; shot < kShots; ++shot, ++frame) {
      start(frame);
      if (!late)
        sum += look_at(frame);
      else if (shot > 0)  // at the last frame, while the GPU has this one to do
        sum += look_at(frame - 1);
    }
    if (late) sum += look_at(frame - 1);
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Circuit>("circuit"), named<Optics>("optics"), named<Panorama>("panorama"),
                    named<Parse>("parse"), named<Isosurface>("isosurface"), named<Swarm>("swarm")});
}
