// Seven CUDA C++ programs for the closed loop of advise, the eleventh set; see eleventh.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o eleventh benchmarks/advise/eleventh.cu
//     eleventh kmers|skinning|epidemic|spectra|correlator|develop|parity before|after [STEPS]
//
// kmers: batches of reads go up from pageable memory, and the genomes they are from come down to
// it; after: both by pinned memory. skinning: each frame sends the meshes of all figures, which
// never change, with the turns of their bones; after: meshes stay on the GPU, and skinned vertices
// come to pinned memory. epidemic: the ill of each district are read back each day, though they
// are drawn at the end; after: all days by one copy. spectra: the masses and the heights of each
// spectrum have a copy each; after: one copy from a pinned buffer. correlator: samples come from
// pinned memory, but copies and kernels are in one stream; after: copies have a stream of their
// own, and two places. develop: the host writes a picture's file while the GPU has nothing to do;
// after: pinned, and the GPU develops the next picture meanwhile. parity: four streams, pinned,
// keep the link busy: nothing is to be gained; after: eight streams.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256, kWarp = 32;

// ---- kmers ----
//
// Expected first: pin. Five megabytes of reads go up from pageable memory for each batch, which
// takes about as long as to classify them; 128 KiB come down. All reads are new, and each batch
// is all that there is to wait for.

constexpr int kLength = 150, kWord = 16, kReads = 1 << 15, kBatches = 8, kFileReads = 1 << 20;
constexpr int kGenomes = 64, kBases = 1 << 16, kSlotBits = 23;
constexpr size_t kBatchBytes = static_cast<size_t>(kReads) * kLength;

// Where a word of 16 bases is in the table of those known.
__host__ __device__ inline uint32_t slot_of(uint32_t word) {
  return (word * 0x9e3779b1u) >> (32 - kSlotBits);
}

// A word and the next base, whose two bits are in its letter.
__host__ __device__ inline uint32_t appended(uint32_t word, char base) {
  return word << 2 | (static_cast<uint32_t>(base) >> 1 & 3);
}

// Finds for each read the genome that has most of its words, counted from 1, or 0; a warp a read.
__global__ void classify(const char* reads, const uint2* known, int* found) {
  __shared__ int votes[kThreads / kWarp][kGenomes];
  const int lane = threadIdx.x % kWarp, read = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  int* own = votes[threadIdx.x / kWarp];
  for (int genome = lane; genome < kGenomes; genome += kWarp) own[genome] = 0;
  __syncwarp();
  const char* bases = reads + static_cast<size_t>(read) * kLength;
  for (int first = lane; first <= kLength - kWord; first += kWarp) {
    uint32_t word = 0;
    for (int i = 0; i < kWord; ++i) word = appended(word, bases[first + i]);
    const uint2 slot = known[slot_of(word)];
    if (slot.x == word && slot.y != 0) atomicAdd(&own[slot.y - 1], 1);
  }
  __syncwarp();
  int best = 0;  // of equal ones the first
  for (int genome = lane; genome < kGenomes; genome += kWarp)
    best = max(best, own[genome] * kGenomes + kGenomes - 1 - genome);
  for (int away = kWarp / 2; away > 0; away /= 2)
    best = max(best, __shfl_xor_sync(0xffffffff, best, away));
  if (lane == 0) found[read] = best < kGenomes ? 0 : kGenomes - best % kGenomes;
}

struct Kmers {
  char *file = nullptr, *reads_above = above<char>(kBatchBytes);
  int *found = nullptr, *found_above = above<int>(kReads);
  uint2* known = nullptr;
  std::vector<char> genomes = std::vector<char>(static_cast<size_t>(kGenomes) * kBases);
  int at = 0;
  Random random{1};

  explicit Kmers(bool pinned)
      : file(below<char>(pinned, static_cast<size_t>(kFileReads) * kLength)),
        found(below<int>(pinned, kReads)) {
    for (char& base : genomes) base = any_base();
    for (int read = 0; read < kFileReads; ++read) draw(file + static_cast<size_t>(read) * kLength);
    known = above(table());
  }

  char any_base() { return "ACGT"[random.below(4)]; }

  // Writes a read of a genome, of which two bases may be wrong.
  void draw(char* read) {
    const size_t genome = random.below(kGenomes), first = random.below(kBases - kLength);
    std::memcpy(read, genomes.data() + genome * kBases + first, kLength);
    for (int wrong = 0; wrong < 2; ++wrong) read[random.below(kLength)] = any_base();
  }

  // Returns the words of all genomes, each at its slot if that was free, and whose they are.
  std::vector<uint2> table() const {
    std::vector<uint2> slots(1 << kSlotBits);
    for (size_t base = 0; base < genomes.size(); ++base) {
      uint32_t word = 0;
      if (base % kBases > kBases - kWord) continue;
      for (int i = 0; i < kWord; ++i) word = appended(word, genomes[base + i]);
      uint2& slot = slots[slot_of(word)];
      if (slot.y == 0) slot = make_uint2(word, static_cast<uint32_t>(base / kBases) + 1);
    }
    return slots;
  }

  // Returns how many reads are of each genome, by a sum that tells one from another.
  double run() {
    double sum = 0;
    for (int batch = 0; batch < kBatches; ++batch) {
      const char* reads = file + static_cast<size_t>(at) * kLength;
      CHECK(cudaMemcpy(reads_above, reads, kBatchBytes, cudaMemcpyHostToDevice));
      classify<<<kReads * kWarp / kThreads, kThreads>>>(reads_above, known, found_above);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(found, found_above, kReads * sizeof(int), cudaMemcpyDeviceToHost));
      for (int read = 0; read < kReads; ++read) sum += found[read] * (1 + read % 3);
      at = (at + kReads + 41) % (kFileReads - kReads);
    }
    return sum;
  }
};

// ---- skinning ----
//
// Expected first: keep, and pin. The function that skins a figure takes pointers of the host, as a
// modeller's plug-in does: it sends 13 MiB of a mesh that never changes, to the same place as the
// other figures' meshes, and 6 KiB of turns, which do. The skinned vertices, 4 MiB to pageable
// memory, are needed by the host, which looks for what touches what.

constexpr int kVertices = 1 << 18, kBones = 128, kFigures = 4, kFrames = 2;

struct Mesh {
  float4 *places, *normals, *shares;
  uchar4* bones;  // of each vertex those that it moves with, by those shares
};

__device__ inline float along(float4 row, float4 at) {
  return row.x * at.x + row.y * at.y + row.z * at.z + row.w * at.w;
}

// Moves each vertex with its bones, whose turns are three rows each; the last value is how much
// light from above falls on it.
__global__ void skin(Mesh mesh, const float4* turns, float4* skinned) {
  const int vertex = blockIdx.x * kThreads + threadIdx.x;
  const float4 place = mesh.places[vertex], normal = mesh.normals[vertex];
  const float4 shares = mesh.shares[vertex];
  const uchar4 bones = mesh.bones[vertex];
  const float share[] = {shares.x, shares.y, shares.z, shares.w};
  const int bone[] = {bones.x, bones.y, bones.z, bones.w};
  float4 to = make_float4(0, 0, 0, 0);
  for (int i = 0; i < 4; ++i) {
    const float4* rows = turns + 3 * bone[i];
    to.x += share[i] * along(rows[0], place);
    to.y += share[i] * along(rows[1], place);
    to.z += share[i] * along(rows[2], place);
    to.w += share[i] * along(rows[1], normal);
  }
  skinned[vertex] = to;
}

struct Skinning {
  struct Figure {
    std::vector<float4> places = std::vector<float4>(kVertices), normals = places, shares = places;
    std::vector<uchar4> bones = std::vector<uchar4>(kVertices);
  };
  std::array<Figure, kFigures> figures;
  std::vector<Mesh> meshes;  // of all figures in turn, or of each
  std::array<float4, 3 * kBones> turns{};
  float4* turns_above = above<float4>(3 * kBones);
  float4 *skinned = nullptr, *skinned_above = above<float4>(kVertices);
  bool stay;
  int time = 0;

  explicit Skinning(bool after) : skinned(below<float4>(after, kVertices)), stay(after) {
    Random random(2);
    for (Figure& figure : figures) fill(figure, random);
    for (int i = 0; i < (stay ? kFigures : 1); ++i) {
      meshes.push_back({above<float4>(kVertices), above<float4>(kVertices),
                        above<float4>(kVertices), above<uchar4>(kVertices)});
      if (stay) send(figures[i], meshes[i]);
    }
  }

  static void fill(Figure& figure, Random& random) {
    const auto bone = [&] { return static_cast<unsigned char>(random.below(kBones)); };
    for (int i = 0; i < kVertices; ++i) {
      const float angle = random.between(0, 6.28f), first = random.between(0.4f, 0.9f);
      figure.places[i] = {std::cos(angle), random.between(0, 2), std::sin(angle), 1};
      figure.normals[i] = {std::cos(angle), 0.1f, std::sin(angle), 0};
      figure.shares[i] = {first, 0.9f - first, 0.06f, 0.04f};
      figure.bones[i] = {bone(), bone(), bone(), bone()};
    }
  }

  static void send(const Figure& figure, const Mesh& mesh) {
    constexpr size_t kBytes = kVertices * sizeof(float4), kBoneBytes = kVertices * sizeof(uchar4);
    CHECK(cudaMemcpy(mesh.places, figure.places.data(), kBytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(mesh.normals, figure.normals.data(), kBytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(mesh.shares, figure.shares.data(), kBytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(mesh.bones, figure.bones.data(), kBoneBytes, cudaMemcpyHostToDevice));
  }

  // Turns and lifts each bone of a figure a little further.
  void pose(int figure) {
    for (int bone = 0; bone < kBones; ++bone) {
      const float angle = std::sin(0.05f * time + 0.1f * bone + figure);
      const float sine = std::sin(angle), cosine = std::cos(angle);
      turns[3 * bone] = {cosine, 0, -sine, 0.5f * sine};
      turns[3 * bone + 1] = {0.1f * sine, 1, 0, 0.01f * bone};
      turns[3 * bone + 2] = {sine, 0, cosine, 0};
    }
  }

  // Returns the width, the height and the light of a figure, as some of its vertices show it.
  double skin_figure(int number) {
    const Mesh& mesh = meshes[stay ? number : 0];
    if (!stay) send(figures[number], mesh);
    pose(number);
    CHECK(cudaMemcpy(turns_above, turns.data(), sizeof(turns), cudaMemcpyHostToDevice));
    skin<<<kVertices / kThreads, kThreads>>>(mesh, turns_above, skinned_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(skinned, skinned_above, kVertices * sizeof(float4), cudaMemcpyDeviceToHost));
    float left = 1e9f, right = -1e9f, top = -1e9f;
    double light = 0;
    for (int i = 0; i < kVertices; i += 16) {
      left = std::min(left, skinned[i].x);
      right = std::max(right, skinned[i].x);
      top = std::max(top, skinned[i].y);
      light += std::max(skinned[i].w, 0.0f);
    }
    return right - left + top + light / kVertices;
  }

  double run() {
    double sum = 0;
    for (int frame = 0; frame < kFrames; ++frame, ++time)
      for (int figure = 0; figure < kFigures; ++figure) sum += (figure + 1) * skin_figure(figure);
    return sum;
  }
};

// ---- epidemic ----
//
// Expected first: defer. 16 KiB are read back after each day, for which the host waits, so that
// the GPU idles until the next day is launched; the host does nothing with them before the end.
// All of them are needed, once in a hundred days.

constexpr int kPeople = 1 << 20, kPlaces = 1 << 14, kDistricts = 1 << 12, kDays = 100;
// Days after which someone who was infected is ill, immune, and as before.
constexpr int kIll = 4, kImmune = 12, kWell = 42;

// Bits that look random, of a person and a day.
__device__ inline uint32_t bits_of(uint32_t person, uint32_t day) {
  uint32_t bits = person * 0x9e3779b1u ^ (day + 1) * 0x85ebca77u;
  bits = (bits ^ bits >> 15) * 0x2c1b3c6du;
  bits = (bits ^ bits >> 13) * 0x297a2d39u;
  return bits ^ bits >> 16;
}

// Where someone goes on a day: to one of the places around home.
__device__ inline int place_of(int person, int day) {
  return (person / (kPeople / kPlaces) + bits_of(person, day) % 64) % kPlaces;
}

// Counts those who are ill at each place.
__global__ void visit(const uint8_t* days, int day, int* ill) {
  const int person = blockIdx.x * kThreads + threadIdx.x;
  const int since = days[person];
  if (since >= kIll && since < kImmune) atomicAdd(&ill[place_of(person, day)], 1);
}

// Takes each person to the next day, infected by those who were at the same place, and counts the
// ill of each district.
__global__ void pass_on(uint8_t* days, int day, const int* ill, int* ill_in) {
  const int person = blockIdx.x * kThreads + threadIdx.x;
  int since = days[person];
  if (since > 0) {
    since = since + 1 < kWell ? since + 1 : 0;
  } else {
    // Of 1024; one of them by those who come from elsewhere, so that it never ends.
    const uint32_t chance = min(1 + 12 * ill[place_of(person, day)], 800);
    if (bits_of(person, day + 0x10000000) % 1024 < chance) since = 1;
  }
  days[person] = static_cast<uint8_t>(since);
  if (since >= kIll && since < kImmune) atomicAdd(&ill_in[person / (kPeople / kDistricts)], 1);
}

struct Epidemic {
  uint8_t* days = nullptr;
  int *ill = above<int>(kPlaces), *ill_in = nullptr;
  std::vector<int> history = std::vector<int>(kDays * kDistricts);
  bool at_end;
  int day = 0;

  explicit Epidemic(bool at_end)
      : ill_in(above<int>((at_end ? kDays : 1) * kDistricts)), at_end(at_end) {
    Random random(3);
    std::vector<uint8_t> given(kPeople);
    for (uint8_t& since : given) since = random.below(100) == 0 ? 1 : 0;
    days = above(given);
  }

  void get(int first, int count) {
    CHECK(cudaMemcpy(history.data() + first * kDistricts, ill_in,
                     static_cast<size_t>(count) * kDistricts * sizeof(int),
                     cudaMemcpyDeviceToHost));
  }

  // Returns the most who were ill in a district, over all of them.
  double run() {
    for (int number = 0; number < kDays; ++number, ++day) {
      int* of_day = ill_in + (at_end ? number * kDistricts : 0);
      CHECK(cudaMemsetAsync(ill, 0, kPlaces * sizeof(int), nullptr));
      CHECK(cudaMemsetAsync(of_day, 0, kDistricts * sizeof(int), nullptr));
      visit<<<kPeople / kThreads, kThreads>>>(days, day, ill);
      pass_on<<<kPeople / kThreads, kThreads>>>(days, day, ill, of_day);
      CHECK(cudaGetLastError());
      if (!at_end) get(number, 1);
    }
    if (at_end) get(0, kDays);
    std::array<int, kDistricts> most{};
    for (int number = 0; number < kDays; ++number)
      for (int i = 0; i < kDistricts; ++i)
        most[i] = std::max(most[i], history[number * kDistricts + i]);
    double sum = 0;
    for (const int one : most) sum += one;
    return sum;
  }
};

// ---- spectra ----
//
// Expected first: batch, and pin. 512 copies of about a kilobyte each, pageable, have nothing
// between them, and take far longer than the kernels: what their calls cost, not their bytes, is
// what matters. All spectra are needed, since none comes twice, and the matches, too.

constexpr int kSpectra = 256, kBins = 2048, kLibrary = 2048, kFewest = 100, kMost = 500;
constexpr int kMeasured = 1 << 14, kTile = 16;
constexpr int kAllPeaks = kSpectra * kMost;

// Adds up the heights of the peaks of each spectrum by their mass; a block a spectrum.
__global__ void bin(const int* starts, const float* masses, const float* heights, float* binned) {
  __shared__ int sums[kBins];
  for (int i = threadIdx.x; i < kBins; i += kThreads) sums[i] = 0;
  __syncthreads();
  const int end = starts[blockIdx.x + 1];
  for (int peak = starts[blockIdx.x] + threadIdx.x; peak < end; peak += kThreads)
    atomicAdd(&sums[static_cast<int>(masses[peak])], static_cast<int>(heights[peak]));
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += kThreads)
    binned[blockIdx.x * kBins + i] = sqrtf(static_cast<float>(sums[i]));
}

// Finds the spectrum of the library that is most like each one: the bits of the likeness above
// those that say which.
__global__ void compare(const float* binned, const float* library, unsigned long long* best) {
  __shared__ float of_one[kTile][kTile + 1], of_other[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int one = blockIdx.y * kTile + y, other = blockIdx.x * kTile + x;
  float sum = 0;
  for (int first = 0; first < kBins; first += kTile) {
    of_one[y][x] = binned[one * kBins + first + x];
    of_other[y][x] = library[(blockIdx.x * kTile + y) * kBins + first + x];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += of_one[y][i] * of_other[x][i];
    __syncthreads();
  }
  // Floats that are not negative are in the order of their bits.
  const auto bits = static_cast<unsigned long long>(__float_as_uint(sum));
  atomicMax(&best[one], bits << 32 | static_cast<unsigned>(other));
}

struct Spectra {
  struct Spectrum {
    std::vector<float> masses, heights;
  };
  std::vector<Spectrum> measured = std::vector<Spectrum>(kMeasured);
  std::vector<unsigned long long> best = std::vector<unsigned long long>(kSpectra);
  unsigned long long* best_above = above<unsigned long long>(kSpectra);
  float *library = nullptr, *binned = above<float>(kSpectra * kBins);
  float *packed = nullptr, *peaks_above = above<float>(2 * kAllPeaks);
  std::array<int, kSpectra + 1> starts{};
  int* starts_above = above<int>(kSpectra + 1);
  bool together;
  int at = 0;

  explicit Spectra(bool together)
      : packed(below<float>(together, 2 * kAllPeaks)), together(together) {
    Random random(4);
    std::vector<float> known(static_cast<size_t>(kLibrary) * kBins);
    for (int i = 0; i < kLibrary * kFewest; ++i)
      known[(i / kFewest) * kBins + random.below(kBins)] = random.between(0, 0.1f);
    library = above(known);
    for (Spectrum& spectrum : measured) {
      const int count = kFewest + random.below(kMost - kFewest + 1);
      for (int peak = 0; peak < count; ++peak) {
        spectrum.masses.push_back(random.between(0, kBins - 1));
        spectrum.heights.push_back(random.between(1, 10000));
      }
    }
  }

  static void send(float* to, const std::vector<float>& values) {
    const size_t bytes = values.size() * sizeof(float);
    CHECK(cudaMemcpy(to, values.data(), bytes, cudaMemcpyHostToDevice));
  }

  void send_peaks(const Spectrum* spectra) {
    for (int i = 0; i < kSpectra; ++i) {
      send(peaks_above + starts[i], spectra[i].masses);
      send(peaks_above + starts[kSpectra] + starts[i], spectra[i].heights);
    }
  }

  // Sends first all masses, then all heights.
  void send_packed(const Spectrum* spectra) {
    const int all = starts[kSpectra];
    for (int i = 0; i < kSpectra; ++i) {
      const auto& [masses, heights] = spectra[i];
      std::copy(masses.begin(), masses.end(), packed + starts[i]);
      std::copy(heights.begin(), heights.end(), packed + all + starts[i]);
    }
    CHECK(cudaMemcpy(peaks_above, packed, 2 * all * sizeof(float), cudaMemcpyHostToDevice));
  }

  // Returns which spectra of the library are found, and how like they are.
  double run() {
    const Spectrum* spectra = measured.data() + at;
    at = (at + kSpectra + 7) % (kMeasured - kSpectra);
    for (int i = 0; i < kSpectra; ++i)
      starts[i + 1] = starts[i] + static_cast<int>(spectra[i].masses.size());
    CHECK(cudaMemcpy(starts_above, starts.data(), sizeof(starts), cudaMemcpyHostToDevice));
    if (together)
      send_packed(spectra);
    else
      send_peaks(spectra);
    const float* heights = peaks_above + starts[kSpectra];
    bin<<<kSpectra, kThreads>>>(starts_above, peaks_above, heights, binned);
    CHECK(cudaMemsetAsync(best_above, 0, kSpectra * sizeof(best[0]), nullptr));
    compare<<<dim3(kLibrary / kTile, kSpectra / kTile), dim3(kTile, kTile)>>>(binned, library,
                                                                              best_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(best.data(), best_above, kSpectra * sizeof(best[0]), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const auto one : best) {
      const auto bits = static_cast<uint32_t>(one >> 32);
      float likeness = 0;
      std::memcpy(&likeness, &bits, sizeof(bits));
      sum += likeness + static_cast<double>(one & 0xffffffffu);
    }
    return sum;
  }
};

// ---- correlator ----
//
// Expected first: streams (which some call prefetch). Memory is pinned and the calls are
// asynchronous, but all is in one stream and one place, so that each block's samples come only
// when the last block is done, which takes about as long. All samples are needed, and the sums
// once a step.

constexpr int kAntennas = 64, kBands = 64, kTimes = 1024, kSlice = 64, kBlocks = 12;
constexpr size_t kBlock = static_cast<size_t>(kBands) * kTimes * kAntennas;
constexpr size_t kTaken = 256 * kMiB / sizeof(char2);
constexpr int kPairs = kBands * kAntennas * kAntennas;

// Adds to the sum of each band and pair of antennas what one heard times what the other did.
__global__ void correlate(const char2* samples, int2* pairs) {
  __shared__ char2 of_one[kSlice][kTile], of_other[kSlice][kTile];
  const int x = threadIdx.x, y = threadIdx.y, band = blockIdx.z;
  int2 sum = make_int2(0, 0);
  for (int first = 0; first < kTimes; first += kSlice) {
    for (int time = y; time < kSlice; time += kTile) {
      const char2* heard = samples + (band * kTimes + first + time) * kAntennas;
      of_one[time][x] = heard[blockIdx.y * kTile + x];
      of_other[time][x] = heard[blockIdx.x * kTile + x];
    }
    __syncthreads();
    for (int time = 0; time < kSlice; ++time) {
      const char2 one = of_one[time][y], other = of_other[time][x];
      sum.x += one.x * other.x + one.y * other.y;
      sum.y += one.y * other.x - one.x * other.y;
    }
    __syncthreads();
  }
  const int row = band * kAntennas + blockIdx.y * kTile + y;
  int2& pair = pairs[row * kAntennas + blockIdx.x * kTile + x];
  pair = make_int2(pair.x + sum.x, pair.y + sum.y);
}

struct Correlator {
  struct Place {
    char2* samples = above<char2>(kBlock);
    cudaEvent_t sent = new_event(), free = new_event();
  };
  std::vector<Place> places;
  char2* taken = below<char2>(true, kTaken);
  int2 *pairs = below<int2>(true, kPairs), *pairs_above = above<int2>(kPairs);
  cudaStream_t kernels = new_stream(), copies = kernels;
  bool ahead;
  size_t at = 0;

  explicit Correlator(bool ahead) : places(ahead ? 2 : 1), ahead(ahead) {
    if (ahead) copies = new_stream();
    Random random(5);
    for (size_t i = 0; i < kTaken; i += 2) {
      const uint32_t bits = random.next();
      std::memcpy(taken + i, &bits, sizeof(bits));
    }
    CHECK(cudaDeviceSynchronize());
  }

  void send(const Place& place) {
    if (ahead) CHECK(cudaStreamWaitEvent(copies, place.free, 0));
    CHECK(cudaMemcpyAsync(place.samples, taken + at, kBlock * sizeof(char2), cudaMemcpyHostToDevice,
                          copies));
    at = (at + kBlock + 4096) % (kTaken - kBlock);
    if (!ahead) return;
    CHECK(cudaEventRecord(place.sent, copies));
    CHECK(cudaStreamWaitEvent(kernels, place.sent, 0));
  }

  void add(const Place& place) {
    send(place);
    const dim3 tiles(kAntennas / kTile, kAntennas / kTile, kBands), threads(kTile, kTile);
    correlate<<<tiles, threads, 0, kernels>>>(place.samples, pairs_above);
    CHECK(cudaGetLastError());
    if (ahead) CHECK(cudaEventRecord(place.free, kernels));
  }

  // Returns how strong the pairs of antennas are.
  double run() {
    CHECK(cudaMemsetAsync(pairs_above, 0, kPairs * sizeof(int2), kernels));
    for (int block = 0; block < kBlocks; ++block) add(places[block % places.size()]);
    CHECK(cudaMemcpyAsync(pairs, pairs_above, kPairs * sizeof(int2), cudaMemcpyDeviceToHost,
                          kernels));
    CHECK(cudaStreamSynchronize(kernels));
    double sum = 0;
    for (int i = 0; i < kPairs; i += 5) sum += std::abs(pairs[i].x) + std::abs(pairs[i].y);
    return sum;
  }
};

// ---- develop ----
//
// Expected first: pin, no wait for a picture before the next one is launched, and with it a second
// place. The host takes about as long to write a picture's file as the GPU does to develop it, and
// neither works while the other does; both copies, of 2 MiB each, are pageable. All are needed.

constexpr int kSide = 1024, kPictures = 4, kFilm = 32, kReach = 4, kPatch = 2;
constexpr int kEdge = kReach + kPatch, kTileWide = kTile + 2 * kEdge;
constexpr int kPixels = kSide * kSide, kCell = 8, kOfCell = kCell * kCell;
constexpr size_t kFilmPixels = static_cast<size_t>(kFilm) * kPixels;

// Takes the noise from a picture: the mean of all pixels nearby, by how like what is around them.
__global__ void denoise(const uint16_t* raw, float* clean) {
  __shared__ float near[kTileWide][kTileWide];
  const int left = blockIdx.x * kTile - kEdge, top = blockIdx.y * kTile - kEdge;
  for (int y = threadIdx.y; y < kTileWide; y += kTile)
    for (int x = threadIdx.x; x < kTileWide; x += kTile)
      near[y][x] = raw[min(max(top + y, 0), kSide - 1) * kSide + min(max(left + x, 0), kSide - 1)];
  __syncthreads();
  const int x = threadIdx.x + kEdge, y = threadIdx.y + kEdge;
  float sum = 0, shares = 0;
  for (int down = -kReach; down <= kReach; ++down)
    for (int right = -kReach; right <= kReach; ++right) {
      float unlike = 0;
#pragma unroll
      for (int i = -kPatch; i <= kPatch; ++i)
#pragma unroll
        for (int j = -kPatch; j <= kPatch; ++j) {
          const float by = near[y + i][x + j] - near[y + down + i][x + right + j];
          unlike += by * by;
        }
      const float share = __expf(-unlike / 400000);
      sum += share * near[y + down][x + right];
      shares += share;
    }
  clean[(top + y) * kSide + left + x] = sum / shares;  // of itself the share is 1
}

// Finds the rounded cosines of each cell of 8 x 8 pixels, in the order given; a block has 4 cells.
__global__ void transform(const float* clean, const int* order, int16_t* cosines) {
  __shared__ float pixels[kThreads], rows[kThreads], waves[kOfCell];
  const int i = threadIdx.x % kOfCell, first = threadIdx.x - i, u = i / kCell, v = i % kCell;
  const int cell = (blockIdx.x * kThreads + threadIdx.x) / kOfCell, wide = kSide / kCell;
  if (threadIdx.x < kOfCell) waves[i] = cospif(u * (2 * v + 1) / 16.0f) * (u ? 0.5f : 0.353553f);
  pixels[threadIdx.x] = clean[(cell / wide * kCell + u) * kSide + cell % wide * kCell + v] / 16;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < kCell; ++k) sum += waves[v * kCell + k] * pixels[first + u * kCell + k];
  rows[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < kCell; ++k) sum += waves[u * kCell + k] * rows[first + k * kCell + v];
  cosines[cell * kOfCell + order[i]] = static_cast<int16_t>(rintf(sum / (4 + 2 * (u + v))));
}

// Returns where each of 64 cosines comes if they go to and fro from low to high ones.
std::vector<int> zigzag() {
  std::vector<int> places(kOfCell);
  int next = 0;
  for (int sum = 0; sum < 2 * kCell - 1; ++sum)
    for (int i = std::max(0, sum - kCell + 1); i <= std::min(sum, kCell - 1); ++i)
      places[sum % 2 ? i * kCell + sum - i : (sum - i) * kCell + i] = next++;
  return places;
}

// Writes the cosines of a picture, each behind the number of zeros before it; returns the end.
uint8_t* write(const int16_t* cosines, uint8_t* to) {
  for (int cell = 0; cell < kPixels; cell += kOfCell) {
    uint8_t zeros = 0;
    for (int i = 0; i < kOfCell; ++i) {
      const int one = cosines[cell + i];
      if (one == 0) {
        ++zeros;
        continue;
      }
      *to++ = zeros;
      *to++ = static_cast<uint8_t>(one);
      if (one != static_cast<int8_t>(one)) *to++ = static_cast<uint8_t>(one >> 8);
      zeros = 0;
    }
    *to++ = 255;
  }
  return to;
}

struct Develop {
  struct Place {
    int16_t* cosines;  // on the host
    cudaEvent_t done = new_event();
  };
  std::vector<Place> places;
  uint16_t *film = nullptr, *raw = above<uint16_t>(kPixels);
  float* clean = above<float>(kPixels);
  int16_t* cosines_above = above<int16_t>(kPixels);
  int* order = above(zigzag());
  std::vector<uint8_t> file = std::vector<uint8_t>(4 * kPixels);
  cudaStream_t stream = new_stream();
  bool ahead;
  size_t at = 0;

  explicit Develop(bool ahead) : film(below<uint16_t>(ahead, kFilmPixels)), ahead(ahead) {
    for (int i = 0; i < (ahead ? 2 : 1); ++i) places.push_back({below<int16_t>(ahead, kPixels)});
    Random random(6);
    for (int picture = 0; picture < kFilm; ++picture) expose(picture, random);
    CHECK(cudaDeviceSynchronize());
  }

  void expose(int picture, Random& random) {
    uint16_t* pixels = film + static_cast<size_t>(picture) * kPixels;
    for (int i = 0; i < kPixels; ++i) {
      const int x = i % kSide, y = i / kSide, stripes = (x >> 5 ^ y >> (4 + picture % 3)) & 7;
      pixels[i] = static_cast<uint16_t>(300 + 400 * stripes + (x + y) / 8 + random.below(120));
    }
  }

  void develop() {
    denoise<<<dim3(kSide / kTile, kSide / kTile), dim3(kTile, kTile), 0, stream>>>(raw, clean);
    transform<<<kPixels / kThreads, kThreads, 0, stream>>>(clean, order, cosines_above);
    CHECK(cudaGetLastError());
  }

  // Launches all that makes the next picture's cosines.
  void start(const Place& place) {
    constexpr size_t kBytes = kPixels * sizeof(uint16_t);
    CHECK(cudaMemcpyAsync(raw, film + at, kBytes, cudaMemcpyHostToDevice, stream));
    develop();
    CHECK(cudaMemcpyAsync(place.cosines, cosines_above, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(place.done, stream));
    at = (at + kPixels + 37 * kSide) % (kFilmPixels - kPixels);
  }

  // Returns how many bytes the files have, and what is in some of them.
  double run() {
    double sum = 0;
    for (int picture = 0; picture < kPictures; ++picture) {
      const Place& place = places[picture % places.size()];
      if (!ahead || picture == 0) start(place);
      if (ahead && picture + 1 < kPictures) start(places[(picture + 1) % places.size()]);
      CHECK(cudaEventSynchronize(place.done));
      const uint8_t* end = write(place.cosines, file.data());
      sum += static_cast<double>(end - file.data());
      for (const uint8_t* byte = file.data(); byte < end; byte += 64) sum += *byte;
    }
    return sum;
  }
};

// ---- parity ----
//
// Expected: no advice. All memory is pinned, all calls are asynchronous, and four streams keep the
// link busy with bytes that are new and that the GPU needs; kernels take a twentieth of that time.
// What the last of 64 stripes takes after the others, and the host between two steps, is less than
// a hundredth of a step.

constexpr int kData = 8, kParity = 3, kShard = 1 << 17, kStripes = 64;
constexpr size_t kStripe = static_cast<size_t>(kData) * kShard, kStep = kStripes * kStripe;
constexpr size_t kOfStripe = static_cast<size_t>(kParity) * kShard;
constexpr size_t kAllParity = kStripes * kOfStripe;
constexpr size_t kStore = 512 * kMiB / sizeof(uint32_t);

// Four bytes, each times two in the field of 256 numbers.
__device__ inline uint32_t doubled(uint32_t bytes) {
  return (bytes << 1 & 0xfefefefeu) ^ (bytes >> 7 & 0x01010101u) * 0x1du;
}

// Finds three shards from which, and from five of the others, those that are lost can be found.
__global__ void protect(const uint32_t* data, uint32_t* parity) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  uint32_t plain = 0, twice = 0, four_times = 0;
  for (int shard = 0; shard < kData; ++shard) {
    const uint32_t bytes = data[shard * kShard + i];
    plain ^= bytes;
    twice = doubled(twice) ^ bytes;
    four_times = doubled(doubled(four_times)) ^ bytes;
  }
  parity[i] = plain;
  parity[kShard + i] = twice;
  parity[2 * kShard + i] = four_times;
}

struct Parity {
  struct Lane {
    uint32_t *data = above<uint32_t>(kStripe), *parity = above<uint32_t>(kOfStripe);
    cudaStream_t stream = new_stream();
  };
  std::vector<Lane> lanes;
  uint32_t* store = below<uint32_t>(true, kStore);
  uint32_t* parity = below<uint32_t>(true, kAllParity);
  size_t at = 0;

  explicit Parity(bool more) : lanes(more ? 8 : 4) {
    Random random(7);
    for (size_t i = 0; i < kStore; ++i) store[i] = random.next();
    CHECK(cudaDeviceSynchronize());
  }

  void protect_stripe(int stripe, const uint32_t* data) {
    const Lane& lane = lanes[stripe % lanes.size()];
    constexpr size_t kBytes = kStripe * sizeof(uint32_t), kBack = kOfStripe * sizeof(uint32_t);
    CHECK(cudaMemcpyAsync(lane.data, data, kBytes, cudaMemcpyHostToDevice, lane.stream));
    protect<<<kShard / kThreads, kThreads, 0, lane.stream>>>(lane.data, lane.parity);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(parity + stripe * kOfStripe, lane.parity, kBack, cudaMemcpyDeviceToHost,
                          lane.stream));
  }

  // Returns the sum of some of the parity.
  double run() {
    for (int stripe = 0; stripe < kStripes; ++stripe)
      protect_stripe(stripe, store + at + stripe * kStripe);
    at = (at + kStep + 4096) % (kStore - kStep);
    CHECK(cudaDeviceSynchronize());
    double sum = 0;
    for (size_t i = 0; i < kAllParity; i += 16001) sum += parity[i];
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Kmers>("kmers"), named<Skinning>("skinning"), named<Epidemic>("epidemic"),
                    named<Spectra>("spectra"), named<Correlator>("correlator"),
                    named<Develop>("develop"), named<Parity>("parity")});
}
