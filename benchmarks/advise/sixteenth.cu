// Six CUDA C++ programs for the closed loop of advise, the sixteenth set; see sixteenth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o sixteenth benchmarks/advise/sixteenth.cu
//     sixteenth reservoir|blobs|calibrate|ledger|exposure|screen before|after [STEPS]
//
// reservoir: a solver sends its matrix for each solution, though it is the same for all; after: it
// sends it once. blobs: whether labels still change comes down after each sweep over a picture;
// after: a kernel writes it to mapped host memory. calibrate: strips of pictures go up, are cleaned
// and come down in one stream; after: in three. ledger: 48 columns of a table go up by a call each;
// after: all by one, from pinned memory. exposure: the host waits for values of a batch of paths,
// and counts them, before it starts the next one; after: it counts while the next ones are under
// way. screen: prints of molecules go up from pageable memory, but while a kernel of some 10 ms
// runs: nothing is to be gained; after: pinned memory.

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

// ---- reservoir ----
//
// Expected first: keep. A function of a library solves for how pressure spreads in rock: it is
// given a matrix and a right side in (pinned) memory of the host, and puts the solution there. The
// matrix, 56 MiB, depends on the rock only, and is the same each day.

constexpr int kEdge = 128, kLayer = kEdge * kEdge, kCells = kLayer * kEdge, kDiagonals = 7;
constexpr int kSweeps = 24, kDays = 3, kWells = 16;
constexpr float kStore = 0.2f;

// Makes a solution better, by Jacobi's method. The matrix is the main diagonal, then how much each
// cell takes from the one before and after it in each direction (none where there is none).
__global__ void sweep(const float* matrix, const float* given, const float* old, float* found) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  const int x = own % kEdge, y = own / kEdge % kEdge, z = own / kLayer;
  float sum = given[own];
  if (x > 0) sum += matrix[1 * kCells + own] * old[own - 1];
  if (x < kEdge - 1) sum += matrix[2 * kCells + own] * old[own + 1];
  if (y > 0) sum += matrix[3 * kCells + own] * old[own - kEdge];
  if (y < kEdge - 1) sum += matrix[4 * kCells + own] * old[own + kEdge];
  if (z > 0) sum += matrix[5 * kCells + own] * old[own - kLayer];
  if (z < kEdge - 1) sum += matrix[6 * kCells + own] * old[own + kLayer];
  found[own] = sum / matrix[own];
}

struct Reservoir {
  static constexpr size_t kMatrix = static_cast<size_t>(kDiagonals) * kCells;
  float *matrix = below<float>(true, kMatrix), *given = below<float>(true, kCells);
  float* pressure = below<float>(true, kCells);
  float *matrix_above = above<float>(kMatrix), *given_above = above<float>(kCells);
  float *one = above<float>(kCells), *two = above<float>(kCells);
  std::array<int, kWells> wells{};
  bool stay, there = false;
  int day = 0;
  Random random{1};

  explicit Reservoir(bool stay) : stay(stay) {
    fill_matrix();
    for (int& well : wells) well = random.below(kCells);
    for (int i = 0; i < kCells; ++i) pressure[i] = 200;
    CHECK(cudaDeviceSynchronize());
  }

  // Puts down how easily oil flows between cells of the rock.
  void fill_matrix() {
    std::vector<float> rock(kCells);
    float layer = 1;
    for (int i = 0; i < kCells; ++i) {
      if (i % (4 * kLayer) == 0) layer = random.between(0.1f, 1);
      rock[i] = layer * random.between(0.5f, 1);
    }
    const std::array<int, 3> far = {1, kEdge, kLayer};
    for (int i = 0; i < kCells; ++i) {
      const std::array<int, 3> place = {i % kEdge, i / kEdge % kEdge, i / kLayer};
      float sum = kStore;
      for (int axis = 0; axis < 3; ++axis)
        for (int side = 0; side < 2; ++side) {
          if (place[axis] == (side == 0 ? 0 : kEdge - 1)) continue;
          const float other = rock[side == 0 ? i - far[axis] : i + far[axis]];
          const float flow = 2 * rock[i] * other / (rock[i] + other);
          matrix[(1 + 2 * axis + side) * static_cast<size_t>(kCells) + i] = flow;
          sum += flow;
        }
      matrix[i] = sum;
    }
  }

  // Puts down the pressure of which the right side is given.
  void solve() {
    if (!stay || !there)
      CHECK(cudaMemcpy(matrix_above, matrix, kMatrix * sizeof(float), cudaMemcpyHostToDevice));
    there = true;
    CHECK(cudaMemcpy(given_above, given, kCells * sizeof(float), cudaMemcpyHostToDevice));
    for (int i = 0; i < kSweeps; ++i) {
      sweep<<<kCells / kThreads, kThreads>>>(matrix_above, given_above, one, two);
      std::swap(one, two);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(pressure, one, kCells * sizeof(float), cudaMemcpyDeviceToHost));
  }

  // Returns the pressure at wells, each of which gets or gives some oil, by a sum over days.
  double run() {
    double sum = 0;
    for (int i = 0; i < kDays; ++i, ++day) {
      for (int cell = 0; cell < kCells; ++cell) given[cell] = kStore * pressure[cell];
      for (int well = 0; well < kWells; ++well)
        given[wells[well]] += (well % 2 == 0 ? 20.0f : -20.0f) * static_cast<float>(1 + day % 5);
      solve();
      for (const int well : wells) sum += pressure[well];
    }
    return sum;
  }
};

// ---- blobs ----
//
// Expected first: mapped. Each pixel of a blob takes the least number of those around it, until
// nothing changes: two kernels of some microseconds, and 4 bytes that the host has to know before
// it launches the next ones. To fetch them takes longer than a sweep.

constexpr int kWide = 512, kPixels = kWide * kWide, kPictures = 8, kTaken = 6, kDiscs = 120;
constexpr int kLines = 30, kLong = 60, kBright = 100;

__global__ void number_pixels(const uint8_t* picture, int* labels) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  labels[own] = picture[own] > kBright ? own : -1;
}

// Gives each pixel the least number around it, or the number that this one has by now.
__global__ void spread(const int* old, int* found, int* tally) {
  const int own = blockIdx.x * kThreads + threadIdx.x, x = own % kWide, y = own / kWide;
  const int before = old[own];
  int label = before;
  if (label >= 0) {
    for (int down = max(y - 1, 0); down <= min(y + 1, kWide - 1); ++down)
      for (int right = max(x - 1, 0); right <= min(x + 1, kWide - 1); ++right) {
        const int other = old[down * kWide + right];
        if (other >= 0) label = min(label, other);
      }
    label = min(label, old[label]);
  }
  found[own] = label;
  const int changed = __syncthreads_or(label != before);
  if (threadIdx.x == 0 && changed != 0) atomicOr(tally, 1);
}

// Counts blobs: a pixel of each has its own number.
__global__ void count_blobs(const int* labels, int* tally) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  const int count = __syncthreads_count(labels[own] == own);
  if (threadIdx.x == 0 && count > 0) atomicAdd(tally, count);
}

// Puts down what was found, and begins anew.
__global__ void tell(int* tally, int* told) {
  *told = *tally;
  *tally = 0;
}

struct Blobs {
  std::array<uint8_t*, kTaken> pictures{};  // which the camera fills in turn
  uint8_t* picture = above<uint8_t>(kPixels);
  int *one = above<int>(kPixels), *two = above<int>(kPixels), *tally = above<int>(1), *told;
  bool mapped;
  int number = 0;
  Random random{2};

  explicit Blobs(bool mapped) : told(mapped ? below<int>(true, 1) : above<int>(1)), mapped(mapped) {
    for (uint8_t*& taken : pictures) {
      taken = below<uint8_t>(true, kPixels);
      take_picture(taken);
    }
    CHECK(cudaDeviceSynchronize());
  }

  void take_picture(uint8_t* taken) {
    for (int i = 0; i < kPixels; ++i) taken[i] = static_cast<uint8_t>(random.next() % 90);
    for (int disc = 0; disc < kDiscs; ++disc) {
      const int radius = 2 + random.below(12), side = kWide - 2 * radius;
      const int x = radius + random.below(side), y = radius + random.below(side);
      for (int down = -radius; down <= radius; ++down)
        for (int right = -radius; right <= radius; ++right)
          if (down * down + right * right <= radius * radius)
            taken[(y + down) * kWide + x + right] = 200;
    }
    for (int line = 0; line < kLines; ++line) {
      const int x = random.below(kWide - kLong), y = random.below(kWide - kLong);
      for (int i = 0; i < kLong; ++i) taken[(y + (line % 2) * i) * kWide + x + i] = 200;
    }
  }

  // Returns what kernels found.
  int look() {
    tell<<<1, 1>>>(tally, told);
    CHECK(cudaGetLastError());
    if (mapped) {
      CHECK(cudaStreamSynchronize(nullptr));
      return *told;
    }
    int found = 0;
    CHECK(cudaMemcpy(&found, told, sizeof(int), cudaMemcpyDeviceToHost));
    return found;
  }

  // Returns how many blobs are in a picture, one pixel of which tells its number.
  int blobs_in(uint8_t* taken) {
    taken[number % kPixels] = 255;
    CHECK(cudaMemcpyAsync(picture, taken, kPixels, cudaMemcpyHostToDevice, nullptr));
    number_pixels<<<kPixels / kThreads, kThreads>>>(picture, one);
    do {
      spread<<<kPixels / kThreads, kThreads>>>(one, two, tally);
      std::swap(one, two);
    } while (look() != 0);
    count_blobs<<<kPixels / kThreads, kThreads>>>(one, tally);
    return look();
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kPictures; ++i, ++number)
      sum += (1 + i) * static_cast<double>(blobs_in(pictures[number % kTaken]));
    return sum;
  }
};

// ---- calibrate ----
//
// Expected first: streams. What a telescope saw, strip by strip, goes up (16 MiB), has rays of the
// sky taken out, and comes down (16 MiB). All is pinned and asynchronous, and the host waits only
// once all strips are under way; but in one stream these three take turns.

constexpr int kRows = 2048, kColumns = 4096, kStrips = 8, kSeen = 10, kStreams = 3;
constexpr size_t kStripPixels = static_cast<size_t>(kRows) * kColumns;

__device__ inline void order(float& low, float& high) {
  const float least = fminf(low, high);
  high = fmaxf(low, high);
  low = least;
}

// Takes the dark off each pixel, makes all as sensitive, and puts the median of nine pixels where
// one is much brighter.
__global__ void clean(const uint16_t* raw, const uint16_t* dark, const float* flat,
                      uint16_t* cleaned) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  float values[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) {
    const int row = min(max(y + i / 3 - 1, 0), kRows - 1);
    const int at = row * kColumns + min(max(x + i % 3 - 1, 0), kColumns - 1);
    values[i] = fmaxf(static_cast<float>(raw[at]) - dark[at], 0) * flat[at];
  }
  const float own = values[4];
#pragma unroll
  for (int i = 0; i < 5; ++i)
#pragma unroll
    for (int j = i + 1; j < 9; ++j) order(values[i], values[j]);
  const float found = own > 2 * values[4] + 100 ? values[4] : own;
  cleaned[y * kColumns + x] = static_cast<uint16_t>(fminf(found + 0.5f, 65535));
}

struct Calibrate {
  struct Place {
    uint16_t *raw = above<uint16_t>(kStripPixels), *cleaned = above<uint16_t>(kStripPixels);
    cudaStream_t stream = new_stream();
  };
  std::vector<Place> places;
  std::array<uint16_t*, kSeen> seen{};  // where the telescope puts strips, in turn
  std::array<uint16_t*, kStrips> cleaned{};
  uint16_t* dark = nullptr;
  float* flat = nullptr;
  int strip = 0;
  Random random{3};

  explicit Calibrate(bool more) : places(more ? kStreams : 1) {
    std::vector<uint16_t> darks(kStripPixels);
    std::vector<float> flats(kStripPixels);
    for (size_t i = 0; i < kStripPixels; ++i) {
      const uint32_t bits = random.next();
      darks[i] = static_cast<uint16_t>(90 + bits % 16);
      flats[i] = 0.9f + 0.2f * static_cast<float>(bits >> 8) / 16777216.0f;
    }
    dark = above(darks);
    flat = above(flats);
    for (uint16_t*& one : seen) {
      one = below<uint16_t>(true, kStripPixels);
      see(one);
    }
    for (uint16_t*& one : cleaned) one = below<uint16_t>(true, kStripPixels);
    CHECK(cudaDeviceSynchronize());
  }

  // Puts down the sky, with some stars and rays.
  void see(uint16_t* raw) {
    for (size_t i = 0; i < kStripPixels; i += 4) {
      const uint32_t bits = random.next();
      for (int j = 0; j < 4; ++j) raw[i + j] = static_cast<uint16_t>(300 + (bits >> 8 * j) % 64);
    }
    for (int i = 0; i < 20000; ++i)
      raw[random.below(kRows * kColumns)] = static_cast<uint16_t>(2000 + random.below(30000));
  }

  // Launches all that a strip needs, the first pixel of which tells its number.
  void start(int number) {
    const Place& place = places[number % places.size()];
    uint16_t* raw = seen[number % kSeen];
    raw[0] = static_cast<uint16_t>(number);
    CHECK(cudaMemcpyAsync(place.raw, raw, kStripPixels * sizeof(raw[0]), cudaMemcpyHostToDevice,
                          place.stream));
    clean<<<dim3(kColumns / kThreads, kRows), kThreads, 0, place.stream>>>(place.raw, dark, flat,
                                                                           place.cleaned);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(cleaned[number % kStrips], place.cleaned, kStripPixels * sizeof(raw[0]),
                          cudaMemcpyDeviceToHost, place.stream));
  }

  // Returns how bright strips are, by some pixels of each.
  double run() {
    for (int i = 0; i < kStrips; ++i) start(strip++);
    for (const Place& place : places) CHECK(cudaStreamSynchronize(place.stream));
    int64_t sum = 0;
    for (const uint16_t* one : cleaned)
      for (int row = 0; row < kRows; ++row) sum += one[row * kColumns + row * 37 % kColumns];
    return static_cast<double>(sum);
  }
};

// ---- ledger ----
//
// Expected first: pin+batch. The host decodes a group of rows, column by column, each of which is
// memory of its own, 64 KiB, pageable; 48 calls send them, and a kernel adds them up by account.

constexpr int kFields = 48, kEntries = 16384, kGroups = 4, kAccounts = 1024, kStored = 6;

// Adds up the fields of each row for its account; the first field is the account.
__global__ void post(const int* fields, unsigned long long* totals) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  long long sum = 0;
  for (int field = 1; field < kFields; ++field)
    sum += static_cast<long long>(fields[field * kEntries + row]) * (1 + field % 5);
  atomicAdd(&totals[fields[row] & (kAccounts - 1)], static_cast<unsigned long long>(sum));
}

struct Ledger {
  std::array<std::vector<uint8_t>, kStored> coded;  // groups of rows, as they were read
  std::array<int*, kFields> fields{};
  int* fields_above = above<int>(static_cast<size_t>(kFields) * kEntries);
  unsigned long long *totals = below<unsigned long long>(true, kAccounts),
                     *totals_above = above<unsigned long long>(kAccounts);
  bool together;
  int group = 0;

  explicit Ledger(bool together) : together(together) {
    int* all = together ? below<int>(true, kFields * kEntries) : nullptr;
    for (int i = 0; i < kFields; ++i)
      fields[i] = together ? all + i * kEntries : below<int>(false, kEntries);
    Random random{4};
    for (std::vector<uint8_t>& one : coded) {
      one.resize(static_cast<size_t>(kFields) * kEntries);
      for (uint8_t& delta : one) delta = static_cast<uint8_t>(random.next() >> 24);
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Decodes a group: each entry is stored as what it is more than the one before.
  void decode() {
    const uint8_t* deltas = coded[group % kStored].data();
    for (int i = 0; i < kFields; ++i) {
      int value = 37 * group + i;
      for (int entry = 0; entry < kEntries; ++entry) {
        value += deltas[i * kEntries + entry] - 127;
        fields[i][entry] = value;
      }
    }
  }

  void send() {
    constexpr size_t kBytes = kEntries * sizeof(int);
    if (together) {
      CHECK(cudaMemcpy(fields_above, fields[0], kFields * kBytes, cudaMemcpyHostToDevice));
      return;
    }
    for (int i = 0; i < kFields; ++i)
      CHECK(cudaMemcpy(fields_above + i * kEntries, fields[i], kBytes, cudaMemcpyHostToDevice));
  }

  // Returns what accounts have after some groups, by a sum.
  double run() {
    for (int i = 0; i < kGroups; ++i, ++group) {
      decode();
      send();
      post<<<kEntries / kThreads, kThreads>>>(fields_above, totals_above);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(totals, totals_above, kAccounts * sizeof(totals[0]), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (int i = 0; i < kAccounts; ++i) sum += static_cast<double>(totals[i] % 1000003);
    return sum;
  }
};

// ---- exposure ----
//
// Expected first: async. A bank asks what its swaps may be worth on each of 64 dates, over paths
// that interest may take. 2 MiB come down to pinned memory for a batch of paths, by a call that
// waits; then the host counts how often they are worth how much, and the GPU idles.

constexpr int kPaths = 1 << 13, kDates = 64, kSwaps = 1024, kBatches = 6, kLevels = 512;

struct Swap {
  float notional, fixed, years;
};

__device__ inline uint32_t mixed(uint32_t bits) {
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

// Lets interest take a path, and puts down what all swaps are worth on each date (dates, paths); a
// thread for a path.
__global__ void simulate(uint32_t batch, const Swap* swaps, float* values) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  const uint32_t seed = mixed(batch * kPaths + own);
  float interest = 0.03f;
  for (int date = 0; date < kDates; ++date) {
    const uint32_t one = mixed(seed + 2 * date), two = mixed(seed + 2 * date + 1);
    const float far = sqrtf(-2 * __logf(((one >> 8) + 1) * (1 / 16777217.0f)));
    const float draw = far * __cosf(6.2831853f * ((two >> 8) * (1 / 16777216.0f)));
    interest += 0.025f * (0.03f - interest) + 0.004f * draw;
    interest = fmaxf(interest, 1e-3f);
    const float now = 0.25f * date;
    float worth = 0;
    for (int i = 0; i < kSwaps; ++i) {
      const Swap swap = swaps[i];
      const float left = fmaxf(swap.years - now, 0);
      const float paid = (1 - __expf(-interest * left)) / interest;
      worth += swap.notional * (interest - swap.fixed) * paid;
    }
    values[date * kPaths + own] = worth;
  }
}

struct Exposure {
  static constexpr size_t kValues = static_cast<size_t>(kPaths) * kDates;
  std::array<float*, 2> places = {below<float>(true, kValues), below<float>(true, kValues)};
  std::array<cudaEvent_t, 2> there = {new_event(), new_event()};
  float* values = above<float>(kValues);
  Swap* swaps = nullptr;
  std::vector<int> counts = std::vector<int>(kLevels);
  bool ahead;
  int batch = 0;

  explicit Exposure(bool ahead) : ahead(ahead) {
    Random random{5};
    std::vector<Swap> all(kSwaps);
    for (Swap& one : all) {
      const float notional = random.between(-1, 1.2f), fixed = random.between(0.01f, 0.05f);
      one = {notional, fixed, random.between(2, 20)};
    }
    swaps = above(all);
    CHECK(cudaDeviceSynchronize());
  }

  // Launches a batch, and fetches its values.
  void start(int number) {
    simulate<<<kPaths / kThreads, kThreads>>>(number, swaps, values);
    CHECK(cudaGetLastError());
    float* place = places[number % 2];
    if (!ahead) {
      CHECK(cudaMemcpy(place, values, kValues * sizeof(float), cudaMemcpyDeviceToHost));
      return;
    }
    CHECK(cudaMemcpyAsync(place, values, kValues * sizeof(float), cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaEventRecord(there[number % 2], nullptr));
  }

  // Returns what swaps may be worth on each date at most, but for a path in twenty, by a sum.
  double count(int number) {
    if (ahead) CHECK(cudaEventSynchronize(there[number % 2]));
    const float* place = places[number % 2];
    double sum = 0;
    for (int date = 0; date < kDates; ++date) {
      std::fill(counts.begin(), counts.end(), 0);
      double all = 0;
      for (int path = 0; path < kPaths; ++path) {
        const float worth = std::max(place[date * kPaths + path], 0.0f);
        ++counts[std::min(static_cast<int>(20 * worth), kLevels - 1)];
        all += worth;
      }
      int level = kLevels - 1;
      for (int more = counts[level]; more < kPaths / 20; more += counts[level]) --level;
      sum += level + all / kPaths;
    }
    return sum;
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kBatches; ++i, ++batch) {
      start(batch);
      if (!ahead)
        sum += count(batch);
      else if (i > 0)  // the last batch, while this one is under way
        sum += count(batch - 1);
    }
    if (ahead) sum += count(batch - 1);
    return sum;
  }
};

// ---- screen ----
//
// Expected: no advice. Prints of a library of molecules, 8 MiB, go up from pageable memory for each
// batch; but they do so in a stream of their own, while a kernel of some 10 ms compares the batch
// before with what is asked for. The host then looks at 128 KiB for some microseconds.

constexpr int kQueries = 1 << 14, kQuads = 16, kBatch = 1 << 15, kSlice = 1024, kTile = 64;
constexpr int kScreened = 3, kShelf = 6;
constexpr size_t kPrintBytes = kQuads * sizeof(uint4);

__device__ inline int bits_of(const uint4& quad) {
  return __popc(quad.x) + __popc(quad.y) + __popc(quad.z) + __popc(quad.w);
}

// Finds the molecule that is most like each query: bits that both have, over those of either; a
// thread for a query, a block for 256 queries and a slice of the library. Queries are (quads,
// queries), the library (molecules, quads).
__global__ void __launch_bounds__(kThreads)
    compare(const uint4* queries, const uint4* library, unsigned long long* best) {
  __shared__ uint4 tile[kTile][kQuads];
  __shared__ int sizes[kTile];
  const int query = blockIdx.x * kThreads + threadIdx.x, first = blockIdx.y * kSlice;
  uint4 own[kQuads];
  int size = 0;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    own[i] = queries[i * kQueries + query];
    size += bits_of(own[i]);
  }
  unsigned long long found = 0;
  for (int begin = first; begin < first + kSlice; begin += kTile) {
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kQuads; i += kThreads)
      tile[i / kQuads][i % kQuads] = library[begin * kQuads + i];
    __syncthreads();
    if (threadIdx.x < kTile) {
      int sum = 0;
      for (int i = 0; i < kQuads; ++i) sum += bits_of(tile[threadIdx.x][i]);
      sizes[threadIdx.x] = sum;
    }
    __syncthreads();
    for (int j = 0; j < kTile; ++j) {
      int both = 0;
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const uint4 other = tile[j][i];
        both += bits_of(make_uint4(own[i].x & other.x, own[i].y & other.y, own[i].z & other.z,
                                   own[i].w & other.w));
      }
      const unsigned int like = 10000u * both / max(size + sizes[j] - both, 1);
      const unsigned long long key =
          static_cast<unsigned long long>(like) << 32 | (0xffffffffu - (begin + j));
      found = key > found ? key : found;
    }
  }
  atomicMax(&best[query], found);
}

struct Screen {
  static constexpr size_t kWords = kPrintBytes / sizeof(uint32_t);
  std::array<uint32_t*, kShelf> shelf{};  // where batches are put as they are read, in turn
  uint4* queries = nullptr;
  std::array<uint4*, 2> places = {above<uint4>(static_cast<size_t>(kBatch) * kQuads),
                                  above<uint4>(static_cast<size_t>(kBatch) * kQuads)};
  unsigned long long *best = below<unsigned long long>(true, kQueries),
                     *best_above = above<unsigned long long>(kQueries);
  cudaStream_t main = new_stream(), copies = new_stream();
  cudaEvent_t there = new_event();
  int batch = 0;
  Random random{6};

  explicit Screen(bool pinned) {
    std::vector<uint4> asked(static_cast<size_t>(kQueries) * kQuads);
    for (uint4& one : asked) one = make_uint4(few(), few(), few(), few());
    queries = above(asked);
    for (uint32_t*& one : shelf) {
      one = below<uint32_t>(pinned, kBatch * kWords);
      for (size_t i = 0; i < kBatch * kWords; ++i) one[i] = few();
    }
    CHECK(cudaDeviceSynchronize());
    send(0);
  }

  // Returns a word of which a quarter of bits are set.
  uint32_t few() {
    const uint32_t one = random.next();
    return one & random.next();
  }

  // Sends a batch, the first word of which tells its number.
  void send(int number) {
    uint32_t* one = shelf[number % kShelf];
    one[0] = static_cast<uint32_t>(number);
    CHECK(cudaMemcpyAsync(places[number % 2], one, kBatch * kPrintBytes, cudaMemcpyHostToDevice,
                          copies));
    CHECK(cudaEventRecord(there, copies));
  }

  // Returns how like the best of a batch are what is asked for, by a sum.
  double run() {
    double sum = 0;
    for (int i = 0; i < kScreened; ++i, ++batch) {
      CHECK(cudaStreamWaitEvent(main, there, 0));
      CHECK(cudaMemsetAsync(best_above, 0, kQueries * sizeof(best[0]), main));
      compare<<<dim3(kQueries / kThreads, kBatch / kSlice), kThreads, 0, main>>>(
          queries, places[batch % 2], best_above);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(best, best_above, kQueries * sizeof(best[0]), cudaMemcpyDeviceToHost,
                            main));
      send(batch + 1);
      CHECK(cudaStreamSynchronize(main));
      uint64_t all = 0;
      for (int query = 0; query < kQueries; ++query) all += best[query] >> 32;
      sum += static_cast<double>(all) + static_cast<double>(best[0] % 65536);
    }
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(
      argc, argv,
      {named<Reservoir>("reservoir"), named<Blobs>("blobs"), named<Calibrate>("calibrate"),
       named<Ledger>("ledger"), named<Exposure>("exposure"), named<Screen>("screen")});
}
