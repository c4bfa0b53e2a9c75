// Six CUDA C++ programs for the closed loop of advise, the tenth set; see tenth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o tenth benchmarks/advise/tenth.cu
//     tenth extsort|krylov|seismic|nv12|plasma|adaptive before|after [STEPS]
//
// extsort: parts of a file that is larger than the GPU's share go up from pageable memory, are
// sorted, and come back, one after the other; after: pinned, in turns on three streams. krylov: a
// matrix that never changes goes up from pinned memory for each product with a vector; after: it
// stays on the GPU. seismic: two places and two streams, but the host waits for each shot before
// it sends the next; after: it does not. nv12: crops of eight cameras' frames, two planes each, by
// copies of rows to pageable memory; after: to pinned memory, with one wait. plasma: three sums
// are read back after each of 100 moves; after: all are read at the end of a step. adaptive: the
// error of a trial is read back for the host to choose the next one, and a kernel takes nearly all
// of the time: nothing is to be gained; after: by pinned memory.

#include <algorithm>
#include <array>
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

// ---- extsort ----
//
// Expected first: pin, with a stream for each of three places. Both copies of a part are pageable,
// so each of them takes longer than the kernels that sort it, and none is made while the GPU
// sorts. Parts do not depend on one another; the host reads the sorted ones at the end of a step
// only. All copies are needed: each step's keys are new to the GPU, and all of them come back.

constexpr int kRun = 1 << 20, kRuns = 8, kInBlock = 2048;
constexpr size_t kRunBytes = kRun * sizeof(uint32_t);
constexpr size_t kFile = 256 * kMiB / sizeof(uint32_t),
                 kStepKeys = static_cast<size_t>(kRuns) * kRun;

__device__ inline void set_order(uint32_t& low, uint32_t& high, bool up) {
  if ((low > high) != up) return;
  const uint32_t other = low;
  low = high;
  high = other;
}

// Where the first key of a pair is; the other one is `apart` keys behind it.
__device__ inline int pair_at(int number, int apart) {
  return 2 * number - (number & (apart - 1));
}

// Sets the order of keys of a block whose pairs are at most kInBlock / 2 apart, for each size of
// ordered lists from `first` to `last`.
__global__ void sort_near(uint32_t* keys, int first, int last) {
  __shared__ uint32_t of_block[kInBlock];
  const int base = blockIdx.x * kInBlock;
  for (int i = threadIdx.x; i < kInBlock; i += blockDim.x) of_block[i] = keys[base + i];
  __syncthreads();
  for (int size = first; size <= last; size *= 2) {
    for (int apart = min(size, kInBlock) / 2; apart > 0; apart /= 2) {
      const int low = pair_at(threadIdx.x, apart);
      set_order(of_block[low], of_block[low + apart], ((base + low) & size) == 0);
      __syncthreads();
    }
  }
  for (int i = threadIdx.x; i < kInBlock; i += blockDim.x) keys[base + i] = of_block[i];
}

__global__ void sort_far(uint32_t* keys, int size, int apart) {
  const int low = pair_at(blockIdx.x * blockDim.x + threadIdx.x, apart);
  set_order(keys[low], keys[low + apart], (low & size) == 0);
}

// Sorts the keys of a run by the network of Batcher.
void sort_run(uint32_t* keys, cudaStream_t stream) {
  constexpr int kBlocks = kRun / kInBlock, kPairs = kInBlock / 2;
  sort_near<<<kBlocks, kPairs, 0, stream>>>(keys, 2, kInBlock);
  for (int size = 2 * kInBlock; size <= kRun; size *= 2) {
    for (int apart = size / 2; apart >= kInBlock; apart /= 2)
      sort_far<<<kBlocks, kPairs, 0, stream>>>(keys, size, apart);
    sort_near<<<kBlocks, kPairs, 0, stream>>>(keys, size, size);
  }
  CHECK(cudaGetLastError());
}

struct Extsort {
  struct Lane {
    uint32_t* keys = above<uint32_t>(kRun);
    cudaStream_t stream = new_stream();
  };
  std::array<Lane, 3> lanes;
  uint32_t *file = nullptr, *sorted = nullptr;
  bool in_turns;
  size_t at = 0;

  explicit Extsort(bool in_turns) : in_turns(in_turns) {
    file = below<uint32_t>(in_turns, kFile);
    sorted = below<uint32_t>(in_turns, kStepKeys);
    Random random(1);
    for (size_t i = 0; i < kFile; ++i) file[i] = random.next();
    CHECK(cudaDeviceSynchronize());
  }

  void sort(const uint32_t* keys, uint32_t* to) {
    uint32_t* place = lanes[0].keys;
    CHECK(cudaMemcpy(place, keys, kRunBytes, cudaMemcpyHostToDevice));
    sort_run(place, nullptr);
    CHECK(cudaMemcpy(to, place, kRunBytes, cudaMemcpyDeviceToHost));
  }

  void sort_in_turn(int run, const uint32_t* keys, uint32_t* to) {
    const Lane& lane = lanes[run % lanes.size()];
    CHECK(cudaMemcpyAsync(lane.keys, keys, kRunBytes, cudaMemcpyHostToDevice, lane.stream));
    sort_run(lane.keys, lane.stream);
    CHECK(cudaMemcpyAsync(to, lane.keys, kRunBytes, cudaMemcpyDeviceToHost, lane.stream));
  }

  // Returns the sum of the keys at which the runs would be parted to be merged.
  double run() {
    const uint32_t* keys = file + at;
    at = (at + kStepKeys + 4099) % (kFile - kStepKeys);
    for (int run = 0; run < kRuns; ++run) {
      const size_t first = static_cast<size_t>(run) * kRun;
      if (in_turns)
        sort_in_turn(run, keys + first, sorted + first);
      else
        sort(keys + first, sorted + first);
    }
    if (in_turns) CHECK(cudaDeviceSynchronize());
    double sum = 0;
    for (size_t i = 0; i < kStepKeys; i += 4096) sum += sorted[i];
    return sum;
  }
};

// ---- krylov ----
//
// Expected first: keep. The product takes pointers of the host, as a library's does, and sends the
// whole matrix each time: 25 MiB that the GPU has already, against vectors of 512 KiB. Memory is
// pinned, so pinning gains nothing. Both copies of a vector are needed: the host makes the next
// one of the last.

constexpr int kRows = 1 << 17, kFewest = 16, kSweeps = 8;

// Finds the product of a matrix, whose rows follow one another without their zeros, and a vector.
__global__ void multiply(const int* starts, const int* columns, const float* values, const float* x,
                         float* y) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0;
  for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

struct Krylov {
  int *starts = nullptr, *columns = nullptr;
  float* values = nullptr;
  int *starts_above = nullptr, *columns_above = nullptr;
  float* values_above = nullptr;
  float *x = below<float>(true, kRows), *y = below<float>(true, kRows);
  float *x_above = above<float>(kRows), *y_above = above<float>(kRows);
  std::vector<float> right = std::vector<float>(kRows);
  size_t count = 0;
  bool stays;
  Random random{2};

  explicit Krylov(bool stays) : stays(stays) {
    starts = below<int>(true, kRows + 1);
    for (int row = 0; row < kRows; ++row)
      starts[row + 1] = starts[row] + kFewest + random.below(kFewest + 1);
    count = static_cast<size_t>(starts[kRows]);
    columns = below<int>(true, count);
    values = below<float>(true, count);
    for (int row = 0; row < kRows; ++row)
      for (int i = starts[row]; i < starts[row + 1]; ++i) {
        columns[i] = (row + random.below(8192)) % kRows;
        values[i] = random.between(-0.02f, 0.02f);
      }
    starts_above = above<int>(kRows + 1);
    columns_above = above<int>(count);
    values_above = above<float>(count);
    if (stays) send_matrix();
  }

  void send_matrix() {
    CHECK(cudaMemcpy(starts_above, starts, (kRows + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(columns_above, columns, count * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(values_above, values, count * sizeof(float), cudaMemcpyHostToDevice));
  }

  // Writes to y what the matrix makes of x.
  void find_product() {
    if (!stays) send_matrix();
    CHECK(cudaMemcpy(x_above, x, kRows * sizeof(float), cudaMemcpyHostToDevice));
    multiply<<<kRows / kThreads, kThreads>>>(starts_above, columns_above, values_above, x_above,
                                             y_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y, y_above, kRows * sizeof(float), cudaMemcpyDeviceToHost));
  }

  // Makes a step of time by sweeps of Jacobi, from the last state and some new sources.
  double run() {
    for (int row = 0; row < kRows; ++row) right[row] = 0.9f * x[row];
    for (int source = 0; source < 64; ++source)
      right[random.below(kRows)] += random.between(-10, 10);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      find_product();
      for (int row = 0; row < kRows; ++row) x[row] = right[row] - y[row];
    }
    double sum = 0;
    for (int row = 0; row < kRows; row += 3) sum += std::fabs(x[row]);
    return sum;
  }
};

// ---- seismic ----
//
// Expected first: streams (which some call prefetch). Memory is pinned, copies have a stream and
// two places of their own, and events say when a place is sent and when it is free: all that is
// wrong is one event too many, for which the host waits after each shot, so that the next one is
// never sent while the GPU works. The host does nothing with that shot. All copies up are needed,
// and the one down is of the image of a step.

constexpr int kTraces = 1024, kSamples = 4096, kWide = 512, kDeep = 256, kShots = 8;
constexpr size_t kShot = static_cast<size_t>(kTraces) * kSamples;
constexpr size_t kSurvey = 256 * kMiB / sizeof(float);
constexpr int kPoints = kWide * kDeep;

// Adds to each point of an image what all traces of a shot heard when its echo came.
__global__ void migrate(const float* traces, float* image) {
  const int point = blockIdx.x * kThreads + threadIdx.x;
  const auto x = static_cast<float>(point / kDeep), z = static_cast<float>(point % kDeep);
  float sum = 0;
#pragma unroll 8
  for (int trace = 0; trace < kTraces; ++trace) {
    const float away = x - static_cast<float>(trace) * kWide / kTraces;
    const int sample = min(static_cast<int>(7 * sqrtf(away * away + z * z)), kSamples - 1);
    sum += traces[trace * kSamples + sample];
  }
  image[point] += sum;
}

struct Seismic {
  struct Place {
    float* traces = above<float>(kShot);
    cudaEvent_t sent = new_event(), free = new_event();
  };
  std::array<Place, 2> places;
  float* survey = below<float>(true, kSurvey);
  float* image = below<float>(true, kPoints);
  float* image_above = above<float>(kPoints);
  cudaStream_t copies = new_stream(), kernels = new_stream();
  bool waits;
  size_t at = 0;

  explicit Seismic(bool after) : waits(!after) {
    Random random(3);
    for (size_t i = 0; i < kSurvey; ++i) survey[i] = random.between(-1, 1);
    CHECK(cudaDeviceSynchronize());
  }

  void add(int shot) {
    const Place& place = places[shot % places.size()];
    CHECK(cudaStreamWaitEvent(copies, place.free, 0));
    CHECK(cudaMemcpyAsync(place.traces, survey + at, kShot * sizeof(float), cudaMemcpyHostToDevice,
                          copies));
    CHECK(cudaEventRecord(place.sent, copies));
    CHECK(cudaStreamWaitEvent(kernels, place.sent, 0));
    migrate<<<kPoints / kThreads, kThreads, 0, kernels>>>(place.traces, image_above);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(place.free, kernels));
    if (waits) CHECK(cudaEventSynchronize(place.free));
    at = (at + kShot + 4099) % (kSurvey - kShot);
  }

  // Returns how much is seen in the image that the shots make.
  double run() {
    CHECK(cudaMemsetAsync(image_above, 0, kPoints * sizeof(float), kernels));
    for (int shot = 0; shot < kShots; ++shot) add(shot);
    CHECK(cudaMemcpyAsync(image, image_above, kPoints * sizeof(float), cudaMemcpyDeviceToHost,
                          kernels));
    CHECK(cudaStreamSynchronize(kernels));
    double sum = 0;
    for (int point = 0; point < kPoints; point += 3) sum += std::fabs(image[point]);
    return sum;
  }
};

// ---- nv12 ----
//
// Expected first: pin, and not to wait for each copy. 80 copies of rows of 320 bytes go to
// pageable memory, each of which waits; the host reads nothing before the last one has come. All
// are needed: the host wants to see what is in the crops, which are where the GPU cannot know.

constexpr int kCameras = 8, kWidth = 1920, kHeight = 1080, kPitch = 2048, kCropsOfOne = 5;
constexpr int kCropWidth = 320, kCropHeight = 240, kCrops = kCameras * kCropsOfOne;
constexpr size_t kLuma = static_cast<size_t>(kPitch) * kHeight, kFrame = kLuma * 3 / 2;
constexpr size_t kCropLuma = static_cast<size_t>(kCropWidth) * kCropHeight;
constexpr size_t kCrop = kCropLuma * 3 / 2;

// Draws a frame of each camera: brightness of all pixels, then colours of each four.
__global__ void draw(uint8_t* frames, int time) {
  const size_t place = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int camera = blockIdx.y, x = static_cast<int>(place % kPitch);
  const int y = static_cast<int>(place / kPitch);
  const int circle = (x - 960) * (x - 960) + (y - 540) * (y - 540);
  const int value = (circle >> 8) + x * (camera + 1) + 3 * time;
  frames[camera * kFrame + place] = static_cast<uint8_t>(value ^ (y + time));
}

struct Nv12 {
  uint8_t* frames = above<uint8_t>(kCameras * kFrame);
  uint8_t* crops = nullptr;
  bool waits_once;
  int time = 0;
  Random random{4};

  explicit Nv12(bool after) : crops(below<uint8_t>(after, kCrops * kCrop)), waits_once(after) {}

  void get(uint8_t* to, const uint8_t* from, int rows) const {
    if (waits_once)
      CHECK(cudaMemcpy2DAsync(to, kCropWidth, from, kPitch, kCropWidth, rows,
                              cudaMemcpyDeviceToHost, nullptr));
    else
      CHECK(cudaMemcpy2D(to, kCropWidth, from, kPitch, kCropWidth, rows, cudaMemcpyDeviceToHost));
  }

  // Gets both planes of a crop, whose left upper corner the host chooses at even places.
  void get_crop(int crop) {
    const int x = 2 * random.below((kWidth - kCropWidth) / 2);
    const int y = 2 * random.below((kHeight - kCropHeight) / 2);
    const uint8_t* frame = frames + (crop / kCropsOfOne) * kFrame;
    uint8_t* to = crops + crop * kCrop;
    get(to, frame + static_cast<size_t>(y) * kPitch + x, kCropHeight);
    get(to + kCropLuma, frame + kLuma + static_cast<size_t>(y / 2) * kPitch + x, kCropHeight / 2);
  }

  // Returns the brightness and colour of all crops.
  double run() {
    draw<<<dim3(kFrame / kThreads, kCameras), kThreads>>>(frames, time++);
    CHECK(cudaGetLastError());
    for (int crop = 0; crop < kCrops; ++crop) get_crop(crop);
    if (waits_once) CHECK(cudaStreamSynchronize(nullptr));
    double sum = 0;
    for (int crop = 0; crop < kCrops; ++crop) {
      uint32_t of_crop = 0;
      for (size_t i = 0; i < kCrop; ++i) of_crop += crops[crop * kCrop + i];
      sum += (crop + 1.0) * of_crop;
    }
    return sum;
  }
};

// ---- plasma ----
//
// Expected first: defer. Each move takes three short kernels, and three copies of eight bytes
// for each of which the host waits; it launches what follows without a look at what they brought,
// and adds it up at the end of a step. One copy a step of each sum's 100 values is needed.

constexpr int kCharges = 4096, kMoves = 100, kWarp = 32;
constexpr float kTime = 1e-3f;

// Finds what pulls at each charge, and its potential: a warp for each of them.
__global__ void pull(const float4* charges, float4* pulls) {
  const int charge = (blockIdx.x * kThreads + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  const float4 own = charges[charge];
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = lane; i < kCharges; i += kWarp) {
    const float4 other = charges[i];
    const float x = own.x - other.x, y = own.y - other.y, z = own.z - other.z;
    const float near = rsqrtf(x * x + y * y + z * z + 0.01f);
    const float by = other.w * near * near * near;
    sum.x += by * x;
    sum.y += by * y;
    sum.z += by * z;
    sum.w += other.w * near;
  }
  for (int away = kWarp / 2; away > 0; away /= 2) {
    sum.x += __shfl_xor_sync(0xffffffff, sum.x, away);
    sum.y += __shfl_xor_sync(0xffffffff, sum.y, away);
    sum.z += __shfl_xor_sync(0xffffffff, sum.z, away);
    sum.w += __shfl_xor_sync(0xffffffff, sum.w, away);
  }
  if (lane == 0) pulls[charge] = sum;
}

// Moves the charges, which a trap holds together.
__global__ void move(float4* charges, float4* speeds, const float4* pulls) {
  const int charge = blockIdx.x * kThreads + threadIdx.x;
  float4 at = charges[charge], speed = speeds[charge];
  const float4 by = pulls[charge];
  speed.x += kTime * (at.w * by.x - at.x);
  speed.y += kTime * (at.w * by.y - at.y);
  speed.z += kTime * (at.w * by.z - at.z);
  at.x += kTime * speed.x;
  at.y += kTime * speed.y;
  at.z += kTime * speed.z;
  charges[charge] = at;
  speeds[charge] = speed;
}

__device__ inline double sum_of_warp(double value) {
  for (int away = kWarp / 2; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffff, value, away);
  return value;
}

// Returns the sum of the values of a block of 1024 threads, to the first of its warps.
__device__ double sum_of_block(double value) {
  __shared__ double of_warps[kWarp];
  value = sum_of_warp(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return threadIdx.x < kWarp ? sum_of_warp(of_warps[threadIdx.x]) : 0;
}

// Adds up both energies, and how far the charges are apart, by one block of 1024 threads.
__global__ void measure(const float4* charges, const float4* speeds, const float4* pulls,
                        double* potential, double* kinetic, double* dipole) {
  double of_place = 0, of_speed = 0, far = 0;
  for (int charge = threadIdx.x; charge < kCharges; charge += blockDim.x) {
    const float4 at = charges[charge], speed = speeds[charge];
    of_place += at.w * pulls[charge].w;
    of_speed += speed.x * speed.x + speed.y * speed.y + speed.z * speed.z;
    far += at.w * at.x;
  }
  of_place = sum_of_block(of_place);
  of_speed = sum_of_block(of_speed);
  far = sum_of_block(far);
  if (threadIdx.x != 0) return;
  *potential = of_place / 2;
  *kinetic = of_speed / 2;
  *dipole = far;
}

struct Plasma {
  float4* charges = above<float4>(kCharges);
  float4* speeds = above<float4>(kCharges);
  float4* pulls = above<float4>(kCharges);
  std::array<std::vector<double>, 3> sums;
  std::array<double*, 3> sums_above{};
  bool at_end;

  explicit Plasma(bool at_end) : at_end(at_end) {
    for (auto& values : sums) values.resize(kMoves);
    for (double*& values : sums_above) values = above<double>(at_end ? kMoves : 1);
    Random random(5);
    std::vector<float4> given(kCharges);
    for (int i = 0; i < kCharges; ++i)
      given[i] = {random.between(-4, 4), random.between(-4, 4), random.between(-4, 4),
                  i % 2 ? 0.05f : -0.05f};
    CHECK(cudaMemcpy(charges, given.data(), kCharges * sizeof(float4), cudaMemcpyHostToDevice));
  }

  void get(int first, int count) {
    for (size_t i = 0; i < sums.size(); ++i)
      CHECK(cudaMemcpy(sums[i].data() + first, sums_above[i], count * sizeof(double),
                       cudaMemcpyDeviceToHost));
  }

  // Returns the means of the sums over the moves.
  double run() {
    for (int number = 0; number < kMoves; ++number) {
      const int place = at_end ? number : 0;
      pull<<<kCharges * kWarp / kThreads, kThreads>>>(charges, pulls);
      move<<<kCharges / kThreads, kThreads>>>(charges, speeds, pulls);
      measure<<<1, 1024>>>(charges, speeds, pulls, sums_above[0] + place, sums_above[1] + place,
                           sums_above[2] + place);
      CHECK(cudaGetLastError());
      if (!at_end) get(number, 1);
    }
    if (at_end) get(0, kMoves);
    double sum = 0;
    for (const auto& values : sums)
      for (const double value : values) sum += value / kMoves;
    return sum;
  }
};

// ---- adaptive ----
//
// Expected: no advice. What is read back, four bytes after kernels of milliseconds, says how long
// the next trial's steps are, and whether this one counts: it can be neither read later nor left
// out, and comes in a hundredth of the time of the kernel, pinned or not.

constexpr int kCells = 1 << 20, kTrials = 4, kInTrial = 800;
constexpr float kMostWrong = 1e-6f;

// How a reaction of two substances goes on, as Prigogine's school in Brussels wrote it.
__device__ inline float2 rate(float2 now, float feed) {
  const float made = now.x * now.x * now.y;
  return make_float2(feed + made - 4 * now.x, 3 * now.x - made);
}

__device__ inline float2 added(float2 now, float by, float2 slope) {
  return make_float2(now.x + by * slope.x, now.y + by * slope.y);
}

// Follows each cell by steps of the method of Bogacki and Shampine; finds the largest error.
__global__ void react(const float2* from, float2* to, float step, unsigned* error) {
  const int cell = blockIdx.x * kThreads + threadIdx.x;
  const float feed = 1 + 0.2f * static_cast<float>(cell) / kCells;
  float2 now = from[cell];
  float most = 0;
  float2 first = rate(now, feed);
  for (int number = 0; number < kInTrial; ++number) {
    const float2 second = rate(added(now, step / 2, first), feed);
    const float2 third = rate(added(now, 0.75f * step, second), feed);
    now = added(added(added(now, step * 2 / 9, first), step / 3, second), step * 4 / 9, third);
    const float2 last = rate(now, feed);
    const float x = -5 * first.x + 6 * second.x + 8 * third.x - 9 * last.x;
    const float y = -5 * first.y + 6 * second.y + 8 * third.y - 9 * last.y;
    most = fmaxf(most, step / 72 * fmaxf(fabsf(x), fabsf(y)));
    first = last;
  }
  to[cell] = now;
  for (int away = kWarp / 2; away > 0; away /= 2)
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, away));
  // Floats that are not negative are in the order of their bits.
  if (threadIdx.x % kWarp == 0) atomicMax(error, __float_as_uint(most));
}

struct Adaptive {
  float2 *now = above<float2>(kCells), *next = above<float2>(kCells);
  unsigned* error_above = above<unsigned>(1);
  float* pinned = nullptr;
  float step = 1e-3f;
  double time = 0;

  explicit Adaptive(bool after) : pinned(after ? below<float>(true, 1) : nullptr) {
    Random random(6);
    std::vector<float2> given(kCells);
    for (float2& cell : given) cell = {random.between(0.5f, 1.5f), random.between(2.5f, 3.5f)};
    CHECK(cudaMemcpy(now, given.data(), kCells * sizeof(float2), cudaMemcpyHostToDevice));
  }

  float get_error() const {
    float error = 0;
    if (pinned == nullptr) {
      CHECK(cudaMemcpy(&error, error_above, sizeof(float), cudaMemcpyDeviceToHost));
      return error;
    }
    CHECK(cudaMemcpyAsync(pinned, error_above, sizeof(float), cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    return *pinned;
  }

  // Makes trials, of which those count that are not too wrong; returns how far they have come.
  double run() {
    for (int trial = 0; trial < kTrials; ++trial) {
      CHECK(cudaMemsetAsync(error_above, 0, sizeof(unsigned), nullptr));
      react<<<kCells / kThreads, kThreads>>>(now, next, step, error_above);
      CHECK(cudaGetLastError());
      const float error = get_error();
      if (error <= kMostWrong) {
        std::swap(now, next);
        time += static_cast<double>(kInTrial) * step;
      }
      step *= std::clamp(0.9f * std::cbrt(kMostWrong / (error + 1e-12f)), 0.3f, 2.0f);
    }
    return time;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Extsort>("extsort"), named<Krylov>("krylov"), named<Seismic>("seismic"),
                    named<Nv12>("nv12"), named<Plasma>("plasma"), named<Adaptive>("adaptive")});
}
