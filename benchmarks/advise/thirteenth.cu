// Six CUDA C++ programs for the closed loop of advise, the thirteenth set; see thirteenth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o thirteenth benchmarks/advise/thirteenth.cu
//     thirteenth icp|assembly|tsunami|adjoint|raymarch|mppi before|after [STEPS]
//
// icp: a scan of a lidar is sent for each of 12 turns in which it is laid on a map; after: once.
// assembly: matrices of elements come down to pageable memory, block by block, and the host adds
// them to a large one; after: two pinned places and two streams, a block ahead. tsunami: what
// gauges show is read in each of 300 turns, for a chart at the end; after: at the end. adjoint:
// waves go down to pinned memory and up again in the stream of the kernels; after: in a stream of
// their own. raymarch: five small copies for each picture, from pinned memory, and two streams that
// a slow kernel fills: nothing is to be gained; after: one copy. mppi: the state of a car goes up
// and its controls come down, 200 times; after: kernels read and write them in mapped host memory.

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

// ---- icp ----
//
// Expected first: keep. The scan, 2 MiB of pageable memory, does not change while it is laid on the
// map: 11 of 12 copies of it send what is there already. Each takes longer than the kernels.

constexpr int kLand = 128, kTall = 16, kCells = kLand * kLand * kTall;
constexpr int kPoints = 1 << 17, kScans = 3, kStored = 5, kTurns = 12;
constexpr int kSums = 28, kFitBlocks = 128;
constexpr float kMiddle = 0.5f * kLand, kWaist = 0.5f * kTall;

struct Pose {
  float turn[9];  // by rows
  float shift[3];
};

// How far each point is from the plane of its cell, and how that changes as the pose does: adds up
// the products that the next pose follows from, for each block of threads.
__global__ void fit(const float4* points, const float4* planes, Pose pose, double* sums) {
  __shared__ float parts[kSums][kThreads + 1];
  float own[kSums] = {};
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < kPoints; i += kFitBlocks * kThreads) {
    const float4 point = points[i];
    const float* turn = pose.turn;
    const float x = turn[0] * point.x + turn[1] * point.y + turn[2] * point.z + pose.shift[0];
    const float y = turn[3] * point.x + turn[4] * point.y + turn[5] * point.z + pose.shift[1];
    const float z = turn[6] * point.x + turn[7] * point.y + turn[8] * point.z + pose.shift[2];
    const int column = static_cast<int>(floorf(x + kMiddle));
    const int row = static_cast<int>(floorf(y + kMiddle));
    const int level = static_cast<int>(floorf(z + kWaist));
    if (column < 0 || column >= kLand || row < 0 || row >= kLand || level < 0 || level >= kTall)
      continue;
    const float4 plane = planes[(level * kLand + row) * kLand + column];
    const float off = plane.x * x + plane.y * y + plane.z * z - plane.w;
    if (fabsf(off) > 1) continue;
    const float changes[6] = {y * plane.z - z * plane.y,
                              z * plane.x - x * plane.z,
                              x * plane.y - y * plane.x,
                              plane.x,
                              plane.y,
                              plane.z};
    int at = 0;
#pragma unroll
    for (int one = 0; one < 6; ++one) {
#pragma unroll
      for (int other = one; other < 6; ++other) own[at++] += changes[one] * changes[other];
      own[21 + one] += changes[one] * off;
    }
    own[27] += off * off;
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) parts[i][threadIdx.x] = own[i];
  __syncthreads();
  if (threadIdx.x >= kSums) return;
  double sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += parts[threadIdx.x][i];
  sums[blockIdx.x * kSums + threadIdx.x] = sum;
}

// Adds up what the blocks found, behind it.
__global__ void add_up(double* sums) {
  double sum = 0;
  for (int block = 0; block < kFitBlocks; ++block) sum += sums[block * kSums + threadIdx.x];
  sums[kFitBlocks * kSums + threadIdx.x] = sum;
}

using Matrix = std::array<double, 9>;

Matrix product(const Matrix& one, const Matrix& other) {
  Matrix found{};
  for (int i = 0; i < 9; ++i)
    for (int k = 0; k < 3; ++k) found[i] += one[i / 3 * 3 + k] * other[k * 3 + i % 3];
  return found;
}

// A turn about each axis, by the length of a vector (of Rodrigues).
Matrix turned(const double* by) {
  const double angle = std::sqrt(by[0] * by[0] + by[1] * by[1] + by[2] * by[2]);
  const Matrix cross = {0, -by[2], by[1], by[2], 0, -by[0], -by[1], by[0], 0};
  const Matrix twice = product(cross, cross);
  const double first = angle < 1e-9 ? 1 : std::sin(angle) / angle;
  const double second = angle < 1e-9 ? 0.5 : (1 - std::cos(angle)) / (angle * angle);
  Matrix found{};
  for (int i = 0; i < 9; ++i) found[i] = (i % 4 == 0) + first * cross[i] + second * twice[i];
  return found;
}

// Solves six equations, whose matrix is symmetric, by Cholesky; `sums` is as `fit` makes it.
std::array<double, 6> solved(const std::array<double, kSums>& sums) {
  double lower[6][6] = {};
  std::array<double, 6> found{};
  int at = 0;
  for (int i = 0; i < 6; ++i)
    for (int j = i; j < 6; ++j) lower[j][i] = sums[at++] + (i == j ? 1.0 : 0.0);
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < i; ++k) lower[i][i] -= lower[i][k] * lower[i][k];
    lower[i][i] = std::sqrt(lower[i][i]);
    for (int j = i + 1; j < 6; ++j) {
      for (int k = 0; k < i; ++k) lower[j][i] -= lower[j][k] * lower[i][k];
      lower[j][i] /= lower[i][i];
    }
  }
  for (int i = 0; i < 6; ++i) {
    found[i] = -sums[21 + i];
    for (int k = 0; k < i; ++k) found[i] -= lower[i][k] * found[k];
    found[i] /= lower[i][i];
  }
  for (int i = 5; i >= 0; --i) {
    for (int k = i + 1; k < 6; ++k) found[i] -= lower[k][i] * found[k];
    found[i] /= lower[i][i];
  }
  return found;
}

struct Icp {
  static constexpr size_t kBytes = kPoints * sizeof(float4);
  std::vector<std::vector<float4>> stored;
  std::vector<float4> scan = std::vector<float4>(kPoints);  // where the lidar's driver puts it
  float4 *scan_above = above<float4>(kPoints), *planes = nullptr;
  double* sums_above = above<double>((kFitBlocks + 1) * kSums);
  std::array<double, kSums> sums{};
  bool stay;
  int next = 0;
  Random random{1};

  explicit Icp(bool stay) : stay(stay) {
    std::vector<float4> cells(kCells);
    for (int i = 0; i < kLand * kLand; ++i) survey(i % kLand, i / kLand, cells);
    planes = above(cells);
    for (int i = 0; i < kStored; ++i) stored.push_back(scanned());
    CHECK(cudaDeviceSynchronize());
  }

  static float hill(float x, float y) { return 1.5f * std::sin(x * 0.15f) * std::cos(y * 0.11f); }
  static bool wall(int along) { return along % 32 == 16; }

  // Puts the planes of a column of cells: the ground, and above it walls.
  static void survey(int column, int row, std::vector<float4>& cells) {
    const float x = column + 0.5f - kMiddle, y = row + 0.5f - kMiddle, z = hill(x, y);
    const float to_x = (hill(x + 0.1f, y) - hill(x - 0.1f, y)) / 0.2f;
    const float to_y = (hill(x, y + 0.1f) - hill(x, y - 0.1f)) / 0.2f;
    const float by = 1 / std::sqrt(to_x * to_x + to_y * to_y + 1);
    const float4 ground = {-to_x * by, -to_y * by, by, (z - to_x * x - to_y * y) * by};
    const int level = static_cast<int>(std::floor(z + kWaist));
    for (int i = level - 1; i < kTall; ++i) {
      float4& cell = cells[(i * kLand + row) * kLand + column];
      if (i <= level + 1)
        cell = ground;
      else if (wall(column))
        cell = {1, 0, 0, x};
      else if (wall(row))
        cell = {0, 1, 0, y};
    }
  }

  // Returns points of the ground and of walls, as they look from a place that the lidar is at.
  std::vector<float4> scanned() {
    const double by[3] = {random.between(-0.004f, 0.004f), random.between(-0.004f, 0.004f),
                          random.between(-0.02f, 0.02f)};
    const Matrix turn = turned(by);
    const float right = random.between(-0.3f, 0.3f), ahead = random.between(-0.3f, 0.3f);
    std::vector<float4> found(kPoints);
    for (float4& point : found) {
      float x = random.between(-55, 55), y = random.between(-55, 55), z = hill(x, y);
      const int kind = random.below(4);
      if (kind > 1) z = random.between(4, 7);
      if (kind > 1) (kind == 2 ? x : y) = static_cast<float>(random.below(3) * 32 - 32) - 15.5f;
      x -= right, y -= ahead;
      const auto of = [&](int column) {  // the inverse of a turn is its matrix, mirrored
        return static_cast<float>(turn[column] * x + turn[3 + column] * y + turn[6 + column] * z);
      };
      point = {of(0), of(1), of(2), random.between(0, 1)};
    }
    return found;
  }

  void send() { CHECK(cudaMemcpy(scan_above, scan.data(), kBytes, cudaMemcpyHostToDevice)); }

  void find_sums(const Matrix& turn, const std::array<double, 3>& shift) {
    Pose pose{};
    std::copy(turn.begin(), turn.end(), pose.turn);
    std::copy(shift.begin(), shift.end(), pose.shift);
    fit<<<kFitBlocks, kThreads>>>(scan_above, planes, pose, sums_above);
    add_up<<<1, kSums>>>(sums_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums.data(), sums_above + kFitBlocks * kSums, sizeof(sums),
                     cudaMemcpyDeviceToHost));
  }

  // Returns where the lidar is, by a sum.
  double laid() {
    Matrix turn = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    std::array<double, 3> shift{};
    if (stay) send();
    for (int i = 0; i < kTurns; ++i) {
      if (!stay) send();
      find_sums(turn, shift);
      const std::array<double, 6> by = solved(sums);
      const Matrix more = turned(by.data());
      turn = product(more, turn);
      const std::array<double, 3> old = shift;
      for (int k = 0; k < 3; ++k)
        shift[k] =
            by[3 + k] + more[3 * k] * old[0] + more[3 * k + 1] * old[1] + more[3 * k + 2] * old[2];
    }
    return 100 * (shift[0] + 2 * shift[1] + 3 * shift[2]) + turn[1] + sums[27];
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kScans; ++i) {
      std::memcpy(scan.data(), stored[next++ % kStored].data(), kBytes);
      sum += laid() * (1 + i);
    }
    return sum;
  }
};

// ---- assembly ----
//
// Expected first: pin, async and streams. Matrices of 16384 elements, 4.5 MiB, come down to
// pageable memory, which takes some 0.7 ms; then the host adds them to the large matrix, which may
// take 2 ms, while the GPU idles. It needs all of them.

constexpr int kWide = 64, kDeep = 64, kHigh = 24, kCorners = 8, kPacked = 36;
constexpr int kElements = kWide * kDeep * kHigh, kOfBlock = 1 << 14, kBlocks = kElements / kOfBlock;
constexpr int kRow = kWide + 1, kLayer = kRow * (kDeep + 1), kNodes = kLayer * (kHigh + 1);
constexpr int kAround = 27;  // a node, and those it shares an element with

// The first node of an element, and the one at a corner of it.
__host__ __device__ inline int first_node(int element) {
  const int x = element % kWide, y = element / kWide % kDeep, z = element / (kWide * kDeep);
  return z * kLayer + y * kRow + x;
}

__host__ __device__ inline int corner_node(int first, int corner) {
  return first + (corner & 1) + (corner >> 1 & 1) * kRow + (corner >> 2) * kLayer;
}

// Where in a packed symmetric matrix the entry of two corners is, of which `one` is not after
// `other`.
__host__ __device__ constexpr int packed_at(int one, int other) {
  return one * kCorners - one * (one - 1) / 2 + other - one;
}

// Finds how heat flows between the corners of each element; a thread an element. How well it flows
// depends on how hot it is there.
__global__ void conduct(const double* heat, int first_element, double* matrices) {
  const int element = blockIdx.x * blockDim.x + threadIdx.x;
  const int first = first_node(first_element + element);
  double own[kPacked] = {}, hot[kCorners];
#pragma unroll
  for (int corner = 0; corner < kCorners; ++corner) hot[corner] = heat[corner_node(first, corner)];
  for (int point = 0; point < 8; ++point) {  // of Gauss
    const double x = point & 1 ? 0.788675134594813 : 0.211324865405187;
    const double y = point & 2 ? 0.788675134594813 : 0.211324865405187;
    const double z = point & 4 ? 0.788675134594813 : 0.211324865405187;
    double slopes[kCorners][3], there = 0;
#pragma unroll
    for (int corner = 0; corner < kCorners; ++corner) {
      const double of_x = corner & 1 ? x : 1 - x, of_y = corner & 2 ? y : 1 - y;
      const double of_z = corner & 4 ? z : 1 - z;
      slopes[corner][0] = (corner & 1 ? 1 : -1) * of_y * of_z;
      slopes[corner][1] = (corner & 2 ? 1 : -1) * of_x * of_z;
      slopes[corner][2] = (corner & 4 ? 1 : -1) * of_x * of_y;
      there += hot[corner] * of_x * of_y * of_z;
    }
    const double flow = 0.125 / (1 + 0.1 * there * there);
#pragma unroll
    for (int one = 0; one < kCorners; ++one)
#pragma unroll
      for (int other = one; other < kCorners; ++other)
        own[packed_at(one, other)] +=
            flow * (slopes[one][0] * slopes[other][0] + slopes[one][1] * slopes[other][1] +
                    slopes[one][2] * slopes[other][2]);
  }
#pragma unroll
  for (int i = 0; i < kPacked; ++i) matrices[element * kPacked + i] = own[i];
}

struct Assembly {
  struct Place {
    double* matrices;  // on the host
    double* matrices_above = above<double>(static_cast<size_t>(kOfBlock) * kPacked);
    cudaStream_t stream;
  };
  std::vector<Place> places;
  double *heat, *heat_above = above<double>(kNodes);
  std::vector<double> whole = std::vector<double>(static_cast<size_t>(kNodes) * kAround);
  std::vector<double> cooler = std::vector<double>(kNodes);
  int columns[kCorners][kCorners] = {}, packed[kCorners][kCorners] = {};
  bool ahead;
  int time = 0;

  explicit Assembly(bool ahead) : heat(below<double>(ahead, kNodes)), ahead(ahead) {
    for (int i = 0; i < (ahead ? 2 : 1); ++i) {
      Place place{};
      place.matrices = below<double>(ahead, static_cast<size_t>(kOfBlock) * kPacked);
      place.stream = new_stream();
      places.push_back(place);
    }
    for (int one = 0; one < kCorners; ++one)
      for (int other = 0; other < kCorners; ++other) {
        const int x = (other & 1) - (one & 1), y = (other >> 1 & 1) - (one >> 1 & 1);
        columns[one][other] = ((other >> 2) - (one >> 2) + 1) * 9 + (y + 1) * 3 + x + 1;
        packed[one][other] = packed_at(std::min(one, other), std::max(one, other));
      }
    CHECK(cudaDeviceSynchronize());
  }

  void send_heat() {
    CHECK(cudaMemcpyAsync(heat_above, heat, kNodes * sizeof(double), cudaMemcpyHostToDevice,
                          places[0].stream));
    CHECK(cudaStreamSynchronize(places[0].stream));
  }

  // Launches all that the matrices of a block of elements need; without a block ahead it waits.
  void start(const Place& place, int block) {
    constexpr size_t kBytes = static_cast<size_t>(kOfBlock) * kPacked * sizeof(double);
    constexpr int kFew = 64;
    conduct<<<kOfBlock / kFew, kFew, 0, place.stream>>>(heat_above, block * kOfBlock,
                                                        place.matrices_above);
    CHECK(cudaGetLastError());
    if (!ahead) CHECK(cudaStreamSynchronize(place.stream));
    if (ahead)
      CHECK(cudaMemcpyAsync(place.matrices, place.matrices_above, kBytes, cudaMemcpyDeviceToHost,
                            place.stream));
    else
      CHECK(cudaMemcpy(place.matrices, place.matrices_above, kBytes, cudaMemcpyDeviceToHost));
  }

  // Adds the matrices of a block of elements to the large one.
  void add(const double* matrices, int block) {
    for (int i = 0; i < kOfBlock; ++i) {
      const int first = first_node(block * kOfBlock + i);
      const double* own = matrices + static_cast<size_t>(i) * kPacked;
      for (int one = 0; one < kCorners; ++one) {
        double* row = whole.data() + static_cast<size_t>(corner_node(first, one)) * kAround;
        for (int other = 0; other < kCorners; ++other)
          row[columns[one][other]] += own[packed[one][other]];
      }
    }
  }

  // Lets heat flow; the nodes outside are as hot as they are. Returns how hot some nodes are.
  double flow() {
    double sum = 0;
    for (int node = 0; node < kNodes; ++node) {
      const int x = node % kRow, y = node / kRow % (kDeep + 1), z = node / kLayer;
      cooler[node] = heat[node];
      if (x == 0) cooler[node] = 5 + 4 * std::sin(0.2 * y + 0.1 * time) * std::cos(0.3 * z);
      if (x % kWide == 0 || y % kDeep == 0 || z % kHigh == 0) continue;
      const double* row = whole.data() + static_cast<size_t>(node) * kAround;
      double wrong = 0;
      for (int i = 0; i < kAround; ++i)
        wrong += row[i] * heat[node + (i / 9 - 1) * kLayer + (i / 3 % 3 - 1) * kRow + i % 3 - 1];
      cooler[node] -= 0.7 * wrong / row[kAround / 2];
      if (node % 7 == 0) sum += cooler[node];
    }
    std::copy(cooler.begin(), cooler.end(), heat);
    ++time;
    return sum;
  }

  double run() {
    std::fill(whole.begin(), whole.end(), 0.0);
    send_heat();
    if (ahead) start(places[0], 0);
    for (int block = 0; block < kBlocks; ++block) {
      const Place& place = places[block % places.size()];
      if (!ahead) start(place, block);
      if (ahead && block + 1 < kBlocks) start(places[(block + 1) % places.size()], block + 1);
      CHECK(cudaStreamSynchronize(place.stream));
      add(place.matrices, block);
    }
    return flow();
  }
};

// ---- tsunami ----
//
// Expected first: defer. What 64 gauges show is read in each turn, though a chart of it is drawn at
// the end only. How fast the fastest wave is the host needs in each turn, as the next one's length
// follows from it: that copy and its wait stay.

constexpr int kSea = 512, kPlaces = kSea * kSea, kGauges = 64, kTicks = 300, kTile = 16;
constexpr float kGravity = 9.81f;

// Puts a sea at rest, but for a hump.
__global__ void quake(float4* sea, int to_x, int to_y) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float x = (i % kSea - to_x) / 24.0f, y = (i / kSea - to_y) / 40.0f;
  sea[i] = make_float4(4 + 1.5f * expf(-x * x - y * y), 0, 0, 0);
}

// What flows in a direction at a place; `across` swaps the two directions.
__device__ inline float3 flux(float4 at, bool across) {
  const float along = across ? at.z : at.y, speed = along / at.x;
  const float press = 0.5f * kGravity * at.x * at.x;
  return make_float3(along, at.y * speed + (across ? 0 : press),
                     at.z * speed + (across ? press : 0));
}

// Takes the sea on by one turn (of Lax and Friedrichs), and finds how fast its fastest wave is.
__global__ void advance(const float4* sea, float by, float4* next, int* fastest) {
  __shared__ int most;
  if (threadIdx.x == 0 && threadIdx.y == 0) most = 0;
  __syncthreads();
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  const float4 left = sea[y * kSea + (x + kSea - 1) % kSea], right = sea[y * kSea + (x + 1) % kSea];
  const float4 up = sea[(y + kSea - 1) % kSea * kSea + x], down = sea[(y + 1) % kSea * kSea + x];
  const float3 in = flux(left, false), out = flux(right, false);
  const float3 from = flux(up, true), to = flux(down, true);
  float4 found;
  found.x = 0.25f * (left.x + right.x + up.x + down.x) - by * (out.x - in.x + to.x - from.x);
  found.y = 0.25f * (left.y + right.y + up.y + down.y) - by * (out.y - in.y + to.y - from.y);
  found.z = 0.25f * (left.z + right.z + up.z + down.z) - by * (out.z - in.z + to.z - from.z);
  found.w = 0;
  next[y * kSea + x] = found;
  const float speed = fmaxf(fabsf(found.y), fabsf(found.z)) / found.x + sqrtf(kGravity * found.x);
  atomicMax(&most, __float_as_int(speed));  // in the order of the bits, as no speed is below 0
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) atomicMax(fastest, most);
}

// Takes down how high the sea is at the gauges, a thread each.
__global__ void listen(const float4* sea, const int* gauges, float* heights) {
  heights[threadIdx.x] = sea[gauges[threadIdx.x]].x;
}

struct Tsunami {
  float4 *sea = above<float4>(kPlaces), *next = above<float4>(kPlaces);
  int *fastest_above = above<int>(kTicks), *gauges = nullptr;
  float* chart_above = above<float>(kTicks * kGauges);
  std::vector<float> chart = std::vector<float>(kTicks * kGauges);
  bool at_end;
  Random random{2};

  explicit Tsunami(bool at_end) : at_end(at_end) {
    std::vector<int> found(kGauges);
    for (int& gauge : found) gauge = random.below(kPlaces);
    gauges = above(found);
  }

  void get_chart(int first, int count) {
    CHECK(cudaMemcpy(chart.data() + first * kGauges, chart_above + first * kGauges,
                     count * kGauges * sizeof(float), cudaMemcpyDeviceToHost));
  }

  // Takes the sea on by a turn; returns how fast its fastest wave is then.
  float tick(int number, float by) {
    const dim3 blocks(kSea / kTile, kSea / kTile), threads(kTile, kTile);
    advance<<<blocks, threads>>>(sea, by, next, fastest_above + number);
    std::swap(sea, next);
    listen<<<1, kGauges>>>(sea, gauges, chart_above + number * kGauges);
    CHECK(cudaGetLastError());
    if (!at_end) get_chart(number, 1);
    float fastest = 0;
    CHECK(cudaMemcpy(&fastest, fastest_above + number, sizeof(fastest), cudaMemcpyDeviceToHost));
    return fastest;
  }

  // Returns when the sea was how high at the gauges, by a sum.
  double run() {
    CHECK(cudaMemsetAsync(fastest_above, 0, kTicks * sizeof(int), nullptr));
    quake<<<kPlaces / kThreads, kThreads>>>(sea, random.below(kSea), random.below(kSea));
    CHECK(cudaGetLastError());
    float fastest = 8;
    double time = 0;
    std::array<double, kTicks> times{};
    for (int number = 0; number < kTicks; ++number) {
      const float length = 0.4f / fastest;  // of time, while a place is 1 m wide
      fastest = tick(number, 0.5f * length);
      times[number] = time += length;
    }
    if (at_end) get_chart(0, kTicks);
    double sum = 0;
    for (int i = 0; i < kTicks * kGauges; ++i) sum += (chart[i] - 4) * times[i / kGauges];
    return sum + time;
  }
};

// ---- adjoint ----
//
// Expected first: streams (which some call prefetch). 40 times 4 MiB go down to pinned memory as
// waves run, and up again as others run back: calls are asynchronous, but all are in one stream, so
// that the link and the GPU take turns, each about as long. All bytes are needed.

constexpr int kField = 1024, kSpots = kField * kField, kSnapshots = 40, kEvery = 8;
constexpr int kSurface = 4, kSmall = 128, kShrink = kField / kSmall;
constexpr size_t kSnapshot = kSpots * sizeof(float);

// Takes waves on by one turn. `last` becomes the next; what is on the surface is taken down.
__global__ void swing(const float* now, float* last, const float* speed, int source, float push,
                      float* heard) {
  const int i = blockIdx.x * kThreads + threadIdx.x, x = i % kField, y = i / kField;
  const float left = now[y * kField + (x + kField - 1) % kField];
  const float right = now[y * kField + (x + 1) % kField];
  const float up = now[(y + kField - 1) % kField * kField + x];
  const float down = now[(y + 1) % kField * kField + x];
  const float pull = speed[i] * (left + right + up + down - 4 * now[i]);
  const float found = 0.999f * (2 * now[i] - 0.999f * last[i] + pull) + (i == source ? push : 0);
  last[i] = found;
  if (y == kSurface) heard[x] = found;
}

// Adds what was heard, less what should have been, to waves on the surface.
__global__ void drive(const float* heard, const float* wanted, float* waves) {
  const int x = blockIdx.x * kThreads + threadIdx.x;
  waves[kSurface * kField + x] += 0.1f * (heard[x] - wanted[x]);
}

// Adds to an image where waves there and back are at the same time.
__global__ void correlate(const float* there, const float* back, float* image) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  image[i] += there[i] * back[i];
}

// Makes a small picture of an image, a thread a pixel.
__global__ void shrink(const float* image, float* small) {
  const int i = blockIdx.x * kThreads + threadIdx.x, x = i % kSmall, y = i / kSmall;
  float sum = 0;
  for (int down = 0; down < kShrink; ++down)
    for (int right = 0; right < kShrink; ++right)
      sum += image[(y * kShrink + down) * kField + x * kShrink + right];
  small[i] = sum;
}

struct Adjoint {
  struct Place {
    float* waves = above<float>(kSpots);
    cudaEvent_t filled = new_event(), emptied = new_event();
  };
  std::array<Place, 2> places;
  float* snapshots = below<float>(true, static_cast<size_t>(kSnapshots) * kSpots);
  float *now = above<float>(kSpots), *last = above<float>(kSpots), *speed = nullptr;
  float *heard = above<float>(kSnapshots * kEvery * kField), *wanted = nullptr;
  float *image = above<float>(kSpots), *unheard = above<float>(kField);
  float *small = below<float>(true, kSmall* kSmall), *small_above = above<float>(kSmall * kSmall);
  cudaStream_t stream = new_stream(), copies = nullptr;
  Random random{3};

  // `copies` may be the stream of the kernels, too.
  explicit Adjoint(bool own_stream) : copies(own_stream ? new_stream() : stream) {
    std::vector<float> rock(kSpots), echo(kSnapshots * kEvery * kField);
    for (int i = 0; i < kSpots; ++i)
      rock[i] =
          0.1f + 0.1f * static_cast<float>(i / (100 * kField)) / 10 + random.between(0, 0.05f);
    for (float& one : echo) one = random.between(-0.01f, 0.01f);
    speed = above(rock);
    wanted = above(echo);
    CHECK(cudaDeviceSynchronize());
  }

  void clear() {
    CHECK(cudaMemsetAsync(now, 0, kSnapshot, stream));
    CHECK(cudaMemsetAsync(last, 0, kSnapshot, stream));
  }

  void take_turn(int source, float push, float* takes) {
    swing<<<kSpots / kThreads, kThreads, 0, stream>>>(now, last, speed, source, push, takes);
    std::swap(now, last);
  }

  // Sends the waves of now down, once the place for them is free.
  void stow(int number) {
    Place& place = places[number % 2];
    CHECK(cudaStreamWaitEvent(stream, place.emptied));
    CHECK(cudaMemcpyAsync(place.waves, now, kSnapshot, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaEventRecord(place.filled, stream));
    CHECK(cudaStreamWaitEvent(copies, place.filled));
    CHECK(cudaMemcpyAsync(snapshots + static_cast<size_t>(number) * kSpots, place.waves, kSnapshot,
                          cudaMemcpyDeviceToHost, copies));
    CHECK(cudaEventRecord(place.emptied, copies));
  }

  // Sends the waves of a snapshot up, once the place for them is free.
  void bring(int number) {
    Place& place = places[number % 2];
    CHECK(cudaStreamWaitEvent(copies, place.emptied));
    CHECK(cudaMemcpyAsync(place.waves, snapshots + static_cast<size_t>(number) * kSpots, kSnapshot,
                          cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(place.filled, copies));
  }

  void run_there(int source) {
    clear();
    for (int number = 0; number < kSnapshots; ++number) {
      for (int turn = number * kEvery; turn < (number + 1) * kEvery; ++turn) {
        const float time = 0.1f * static_cast<float>(turn - 30);
        take_turn(source, (1 - time * time) * std::exp(-0.5f * time * time), heard + turn * kField);
      }
      stow(number);
    }
    CHECK(cudaGetLastError());
  }

  void run_back() {
    const bool ahead = copies != stream;
    clear();
    CHECK(cudaMemsetAsync(image, 0, kSnapshot, stream));
    if (ahead) bring(kSnapshots - 1);
    for (int number = kSnapshots - 1; number >= 0; --number) {
      Place& place = places[number % 2];
      if (!ahead) bring(number);
      if (ahead && number > 0) bring(number - 1);
      CHECK(cudaStreamWaitEvent(stream, place.filled));
      correlate<<<kSpots / kThreads, kThreads, 0, stream>>>(place.waves, now, image);
      CHECK(cudaEventRecord(place.emptied, stream));
      for (int turn = (number + 1) * kEvery - 1; turn >= number * kEvery; --turn) {
        take_turn(-1, 0, unheard);
        drive<<<kField / kThreads, kThreads, 0, stream>>>(heard + turn * kField,
                                                          wanted + turn * kField, now);
      }
    }
    CHECK(cudaGetLastError());
  }

  // Returns what the image shows, by a sum.
  double run() {
    run_there((20 + random.below(60)) * kField + random.below(kField));
    run_back();
    shrink<<<kSmall * kSmall / kThreads, kThreads, 0, stream>>>(image, small_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(small, small_above, kSmall * kSmall * sizeof(float),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    double sum = 0;
    for (int i = 0; i < kSmall * kSmall; ++i) sum += std::fabs(small[i]) * (1 + i % 5);
    return sum;
  }
};

// ---- raymarch ----
//
// Expected: no advice. Five copies, of 64 bytes to 1 KiB, for each picture look like one to be, but
// all is pinned and asynchronous, and while one stream copies, a kernel of the other one, of a
// millisecond, fills the GPU.

constexpr int kColumns = 1024, kRows = 640, kPixels = kColumns * kRows, kPictures = 10;
constexpr int kBalls = 64, kLights = 4, kParts = 5;
// Of a scene, in float4: the camera, lights, balls, colours, and the ground.
constexpr std::array<int, kParts> kSizes = {4, kLights, kBalls, kBalls, 8};
constexpr int kScene = 4 + kLights + 2 * kBalls + 8;
constexpr int kLightsAt = 4, kBallsAt = kLightsAt + kLights, kColoursAt = kBallsAt + kBalls;
constexpr int kGroundAt = kColoursAt + kBalls;

// How far what is nearest is, and which it is; the last one is the ground.
__device__ inline float2 nearest(const float4* scene, float x, float y, float z) {
  float least = y - scene[kGroundAt].w - scene[kGroundAt].x * __sinf(x * scene[kGroundAt].y);
  float which = kBalls;
  for (int i = 0; i < kBalls; ++i) {
    const float4 ball = scene[kBallsAt + i];
    const float right = x - ball.x, up = y - ball.y, far = z - ball.z;
    const float off = sqrtf(right * right + up * up + far * far) - ball.w;
    if (off < least) least = off, which = static_cast<float>(i);
  }
  return make_float2(least, which);
}

// Follows a ray for each pixel, as far as nothing is near, and lights what it comes to.
__global__ void march(const float4* given, uchar4* picture) {
  __shared__ float4 scene[kScene];
  for (int i = threadIdx.x; i < kScene; i += kThreads) scene[i] = given[i];
  __syncthreads();
  const int pixel = blockIdx.x * kThreads + threadIdx.x;
  const float4 eye = scene[0], right = scene[1], up = scene[2], ahead = scene[3];
  const float across = (pixel % kColumns - kColumns / 2) / 700.0f;
  const float above = (kRows / 2 - pixel / kColumns) / 700.0f;
  float to_x = ahead.x + across * right.x + above * up.x;
  float to_y = ahead.y + across * right.y + above * up.y;
  float to_z = ahead.z + across * right.z + above * up.z;
  const float by = rsqrtf(to_x * to_x + to_y * to_y + to_z * to_z);
  to_x *= by, to_y *= by, to_z *= by;
  float far = 0;
  float2 met = make_float2(1, kBalls);
  int turn = 0;
  for (; turn < 80 && far < 60 && met.x > 0.002f; ++turn) {
    met = nearest(scene, eye.x + far * to_x, eye.y + far * to_y, eye.z + far * to_z);
    far += 0.9f * met.x;
  }
  float light = 0;
  for (int i = 0; i < kLights; ++i) {
    const float4 lamp = scene[kLightsAt + i];
    const float x = lamp.x - eye.x - far * to_x, y = lamp.y - eye.y - far * to_y;
    const float z = lamp.z - eye.z - far * to_z;
    light += lamp.w / (1 + x * x + y * y + z * z);
  }
  const int which = static_cast<int>(met.y);
  const float4 colour = which < kBalls ? scene[kColoursAt + which] : scene[kGroundAt + 1];
  const float bright = far < 60 ? fminf(255 * light, 255.0f) : 20;
  picture[pixel] = make_uchar4(
      static_cast<unsigned char>(bright * colour.x), static_cast<unsigned char>(bright * colour.y),
      static_cast<unsigned char>(bright * colour.z), static_cast<unsigned char>(turn));
}

struct Raymarch {
  struct Place {
    std::array<float4*, kParts> parts{};  // of the scene, on the host
    float4* scene = above<float4>(kScene);
    uchar4 *picture = below<uchar4>(true, kPixels), *picture_above = above<uchar4>(kPixels);
    cudaStream_t stream = new_stream();
  };
  std::array<Place, 2> places;
  bool at_once;
  int time = 0;

  explicit Raymarch(bool at_once) : at_once(at_once) {
    for (Place& place : places) {
      float4* next = at_once ? below<float4>(true, kScene) : nullptr;
      for (int part = 0; part < kParts; ++part) {
        place.parts[part] = at_once ? next : below<float4>(true, kSizes[part]);
        if (at_once) next += kSizes[part];
      }
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Moves what is in the scene.
  void compose(const Place& place) {
    const float turn = 0.02f * static_cast<float>(time++), sine = std::sin(turn);
    const float cosine = std::cos(turn);
    float4* camera = place.parts[0];
    camera[0] = {-14 * sine, 4, -14 * cosine, 0};
    camera[1] = {cosine, 0, -sine, 0};
    camera[2] = {0, 1, 0, 0};
    camera[3] = {sine, -0.2f, cosine, 0};
    for (int i = 0; i < kLights; ++i)
      place.parts[1][i] = {10 * std::cos(turn + i), 8, 10 * std::sin(turn + i), 30};
    for (int i = 0; i < kBalls; ++i) {
      const auto number = static_cast<float>(i);
      place.parts[2][i] = {static_cast<float>(i % 8) * 2.5f - 9, 1 + std::sin(number + 3 * turn),
                           static_cast<float>(i / 8) * 2.5f - 9, 0.6f + 0.01f * number};
      place.parts[3][i] = {0.2f + 0.01f * number, 0.9f - 0.01f * number, 0.5f, 1};
    }
    place.parts[4][0] = {0.3f, 0.7f, 0, -1};
    place.parts[4][1] = {0.6f, 0.6f, 0.5f, 1};
  }

  void send(const Place& place) {
    int at = 0;
    for (int part = 0; part < (at_once ? 1 : kParts); ++part) {
      const int count = at_once ? kScene : kSizes[part];
      CHECK(cudaMemcpyAsync(place.scene + at, place.parts[part], count * sizeof(float4),
                            cudaMemcpyHostToDevice, place.stream));
      at += count;
    }
  }

  // Launches all that the next picture needs.
  void start(const Place& place) {
    compose(place);
    send(place);
    march<<<kPixels / kThreads, kThreads, 0, place.stream>>>(place.scene, place.picture_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(place.picture, place.picture_above, kPixels * sizeof(uchar4),
                          cudaMemcpyDeviceToHost, place.stream));
  }

  // Returns the sum of some pixels of a picture, once it is there.
  static double show(const Place& place) {
    CHECK(cudaStreamSynchronize(place.stream));
    double sum = 0;
    for (int i = 0; i < kPixels; i += 31)
      sum += place.picture[i].x + place.picture[i].y + place.picture[i].w;
    return sum;
  }

  double run() {
    double sum = 0;
    for (int picture = 0; picture < kPictures; ++picture) {
      const Place& place = places[picture % 2];
      if (picture >= 2) sum += show(place);
      start(place);
    }
    for (const Place& place : places) sum += show(place);
    return sum;
  }
};

// ---- mppi ----
//
// Expected first: mapped. 528 bytes go up and 512 come down around two kernels of some 20 µs; where
// the car is next follows from what came down, so that none can be later. What the calls of the
// copies cost is all that can go.

constexpr int kTries = 4096, kAhead = 64, kMoments = 200, kOfTries = 128;

struct Orders {
  float state[4];              // where the car is, where it heads, and how fast
  float controls[2 * kAhead];  // how it is to steer and to speed up, at each time
};

// A number that looks random, from -1 to 1.
__device__ inline float noise(uint32_t one, uint32_t two, uint32_t three) {
  uint32_t bits = one * 747796405u + two * 2891336453u + three * 277803737u + 1u;
  bits = ((bits >> ((bits >> 28) + 4)) ^ bits) * 277803737u;
  bits = (bits >> 22 ^ bits) * 2654435769u;
  return static_cast<float>((bits ^ bits >> 15) >> 8) / 8388608.0f - 1;
}

// Takes a car on by a twentieth of a second.
__host__ __device__ inline void drive_on(float* state, float steer, float speed_up) {
  state[0] += 0.05f * state[3] * cosf(state[2]);
  state[1] += 0.05f * state[3] * sinf(state[2]);
  state[2] += 0.05f * state[3] * fminf(fmaxf(steer, -1), 1);
  state[3] += 0.05f * fminf(fmaxf(speed_up, -4), 4);
}

// Finds what it costs to steer as ordered, but for some noise; a thread a try.
__global__ void attempt(const Orders* given, uint32_t moment, float* costs) {
  __shared__ Orders orders;
  const auto* from = reinterpret_cast<const float*>(given);
  auto* to = reinterpret_cast<float*>(&orders);
  for (int i = threadIdx.x; i < 4 + 2 * kAhead; i += kOfTries) to[i] = from[i];
  __syncthreads();
  const int own = blockIdx.x * kOfTries + threadIdx.x;
  float state[4] = {orders.state[0], orders.state[1], orders.state[2], orders.state[3]};
  float cost = 0;
  for (int i = 0; i < kAhead; ++i) {
    drive_on(state, orders.controls[2 * i] + 0.5f * noise(own, 2 * i, moment),
             orders.controls[2 * i + 1] + 2 * noise(own, 2 * i + 1, moment));
    const float off = sqrtf(state[0] * state[0] + state[1] * state[1]) - 20;
    const float slow = state[3] - 8;
    cost += off * off + 0.5f * slow * slow;
    for (int post = 0; post < 6; ++post) {
      const float right = state[0] - 21 * cosf(1.05f * post),
                  up = state[1] - 19 * sinf(1.05f * post);
      cost += 40 * __expf(-right * right - up * up);
    }
  }
  costs[own] = cost;
}

// Blends the noise of all tries, that of cheap ones most, into the next orders; a block a time.
__global__ void blend(const Orders* given, const float* costs, uint32_t moment, float* controls) {
  __shared__ float parts[3][kThreads];
  const int own = threadIdx.x;
  float least = 3e38f;
  for (int i = own; i < kTries; i += kThreads) least = fminf(least, costs[i]);
  parts[0][own] = least;
  __syncthreads();
  for (int by = kThreads / 2; by > 0; by /= 2) {
    if (own < by) parts[0][own] = fminf(parts[0][own], parts[0][own + by]);
    __syncthreads();
  }
  least = parts[0][0];
  __syncthreads();
  float sums[3] = {};
  for (int i = own; i < kTries; i += kThreads) {
    const float weight = __expf((least - costs[i]) * 0.02f);
    sums[0] += weight;
    sums[1] += weight * 0.5f * noise(i, 2 * blockIdx.x, moment);
    sums[2] += weight * 2 * noise(i, 2 * blockIdx.x + 1, moment);
  }
  for (int k = 0; k < 3; ++k) parts[k][own] = sums[k];
  __syncthreads();
  for (int by = kThreads / 2; by > 0; by /= 2) {
    if (own < by)
      for (int k = 0; k < 3; ++k) parts[k][own] += parts[k][own + by];
    __syncthreads();
  }
  if (own >= 2) return;
  const int at = 2 * blockIdx.x + own;
  controls[at] = given->controls[at] + parts[1 + own][0] / parts[0][0];
}

struct Mppi {
  Orders *orders, *orders_above;
  float *controls, *controls_above, *costs = above<float>(kTries);
  bool mapped;
  uint32_t moment = 0;

  explicit Mppi(bool mapped)
      : orders(below<Orders>(mapped, 1)),
        orders_above(mapped ? orders : above<Orders>(1)),
        controls(below<float>(mapped, 2 * kAhead)),
        controls_above(mapped ? controls : above<float>(2 * kAhead)),
        mapped(mapped) {
    orders->state[0] = 20;
    orders->state[2] = 1.57f;
    CHECK(cudaDeviceSynchronize());
  }

  // Finds what the controls should be from now on.
  void plan() {
    if (!mapped) CHECK(cudaMemcpy(orders_above, orders, sizeof(Orders), cudaMemcpyHostToDevice));
    attempt<<<kTries / kOfTries, kOfTries>>>(orders_above, moment, costs);
    blend<<<kAhead, kThreads>>>(orders_above, costs, moment, controls_above);
    CHECK(cudaGetLastError());
    if (mapped)
      CHECK(cudaStreamSynchronize(nullptr));
    else
      CHECK(
          cudaMemcpy(controls, controls_above, 2 * kAhead * sizeof(float), cudaMemcpyDeviceToHost));
  }

  // Returns where the car was, by a sum.
  double run() {
    double sum = 0;
    for (int i = 0; i < kMoments; ++i, ++moment) {
      plan();
      drive_on(orders->state, controls[0], controls[1]);
      std::copy(controls + 2, controls + 2 * kAhead, orders->controls);
      sum += orders->state[0] + 2 * orders->state[1] + orders->state[3];
    }
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Icp>("icp"), named<Assembly>("assembly"), named<Tsunami>("tsunami"),
                    named<Adjoint>("adjoint"), named<Raymarch>("raymarch"), named<Mppi>("mppi")});
}
