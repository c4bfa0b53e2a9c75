// Six CUDA C++ programs for the closed loop of advise, the twelfth set; see twelfth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o twelfth benchmarks/advise/twelfth.cu
//     twelfth voxels|tempering|dedupe|ultrasound|align|lens before|after [STEPS]
//
// voxels: a world of which a hundredth changes is sent for each picture of it; after: only the
// bricks that changed. tempering: temperatures of 32 copies of a magnet go up and their energies
// come down for each of 200 turns; after: kernels read and write them in mapped host memory.
// dedupe: segments of a backup go up from pinned memory, are hashed, and the host looks their
// hashes up, one after the other; after: the next segment is sent and hashed meanwhile.
// ultrasound: two streams take turns, but their images go to pageable memory; after: to pinned
// memory. align: the best match of each of 64 peptides is read back, though the host sorts them at
// the end; after: all by one copy. lens: four threads, each of which sends, launches, and waits for
// pageable memory, keep the GPU busy: nothing is to be gained; after: pinned memory.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256, kWarp = 32;

// ---- voxels ----
//
// Expected first: keep. 32 MiB from pinned memory take longer than to draw them; the host, which
// alone changes them, has a list of the 96 bricks of 8192 that it changed since the last picture.
// Pictures are needed, and are pinned.

constexpr int kBrick = 16, kOfBrick = kBrick * kBrick * kBrick, kChanged = 96, kShots = 3;
constexpr int kLong = 512, kDeep = 256, kHigh = 256, kBricks = kLong * kDeep * kHigh / kOfBrick;
constexpr int kColumns = 768, kRows = 512;
constexpr size_t kWorld = static_cast<size_t>(kBricks) * kOfBrick;
constexpr size_t kChange = static_cast<size_t>(kChanged) * (kOfBrick + sizeof(int));

// Where a voxel is in the world, which lies brick by brick.
__host__ __device__ inline int voxel_at(int x, int y, int z) {
  const int brick = ((z / kBrick) * (kDeep / kBrick) + y / kBrick) * (kLong / kBrick) + x / kBrick;
  return brick * kOfBrick + ((z % kBrick) * kBrick + y % kBrick) * kBrick + x % kBrick;
}

// Puts bricks, behind which their numbers lie, where they are in the world; a block a brick.
__global__ void renew(const uint4* changed, uint4* world) {
  constexpr int kWords = kOfBrick / sizeof(uint4);
  const int* numbers = reinterpret_cast<const int*>(changed + kChanged * kWords);
  const int from = blockIdx.x * kWords + threadIdx.x;
  world[numbers[blockIdx.x] * kWords + threadIdx.x] = changed[from];
}

// Follows a ray for each pixel, down into the world, to what it meets first.
__global__ void draw(const uint8_t* world, float turn, uchar4* picture) {
  const int i = blockIdx.x * kThreads + threadIdx.x, column = i % kColumns, row = i / kColumns;
  const float across = (column - kColumns / 2) / 600.0f, down = (row - kRows / 2) / 600.0f - 0.5f;
  float x = kLong / 2, y = kDeep / 2, z = kHigh - 1;
  const float to_x = across * cosf(turn) - sinf(turn), to_y = across * sinf(turn) + cosf(turn);
  uint8_t met = 0;
  int step = 0;
  for (; step < kDeep && met == 0 && z >= 0; ++step) {
    x += to_x;
    y += to_y;
    z += down;
    met = world[voxel_at(static_cast<int>(x) & (kLong - 1), static_cast<int>(y) & (kDeep - 1),
                         min(max(static_cast<int>(z), 0), kHigh - 1))];
  }
  const auto light = static_cast<uint8_t>(met == 0 ? 0 : 255 - step * 3 / 4);
  picture[i] = make_uchar4(met, light, static_cast<uint8_t>(step), 255);
}

struct Voxels {
  uint8_t *world = below<uint8_t>(true, kWorld), *world_above = nullptr;
  uint8_t *changed = below<uint8_t>(true, kChange), *changed_above = above<uint8_t>(kChange);
  uchar4* picture = below<uchar4>(true, kColumns* kRows);
  uchar4* picture_above = above<uchar4>(kColumns * kRows);
  std::array<int, kChanged> numbers{};
  cudaStream_t stream = new_stream();
  bool stay;
  int time = 0;
  Random random{1};

  explicit Voxels(bool stay) : stay(stay) {
    for (int x = 0; x < kLong; ++x)
      for (int y = 0; y < kDeep; ++y) {
        const double hill = 60 + 30 * std::sin(x * 0.05) * std::cos(y * 0.04);
        for (int z = 0; z < hill; ++z) world[voxel_at(x, y, z)] = material();
      }
    world_above = above(std::vector<uint8_t>(world, world + kWorld));
    CHECK(cudaDeviceSynchronize());
  }

  uint8_t material() { return static_cast<uint8_t>(1 + random.below(200)); }

  // Moves some of what the world is made of, in some bricks.
  void live() {
    constexpr int kPart = kBricks / kChanged;
    for (int i = 0; i < kChanged; ++i) {
      numbers[i] = i * kPart + random.below(kPart);
      uint8_t* brick = world + static_cast<size_t>(numbers[i]) * kOfBrick;
      for (int voxel = 0; voxel < 32; ++voxel)
        brick[random.below(kOfBrick)] = random.below(2) == 0 ? material() : uint8_t{0};
    }
  }

  void send_changed() {
    for (int i = 0; i < kChanged; ++i)
      std::memcpy(changed + i * kOfBrick, world + static_cast<size_t>(numbers[i]) * kOfBrick,
                  kOfBrick);
    std::memcpy(changed + kChanged * kOfBrick, numbers.data(), sizeof(numbers));
    CHECK(cudaMemcpyAsync(changed_above, changed, kChange, cudaMemcpyHostToDevice, stream));
    renew<<<kChanged, kOfBrick / sizeof(uint4), 0, stream>>>(
        reinterpret_cast<uint4*>(changed_above), reinterpret_cast<uint4*>(world_above));
    CHECK(cudaGetLastError());
  }

  // Returns the sum of some pixels of a picture.
  double shoot() {
    live();
    if (stay)
      send_changed();
    else
      CHECK(cudaMemcpyAsync(world_above, world, kWorld, cudaMemcpyHostToDevice, stream));
    const float turn = 0.01f * static_cast<float>(time++);
    draw<<<kColumns * kRows / kThreads, kThreads, 0, stream>>>(world_above, turn, picture_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(picture, picture_above, kColumns * kRows * sizeof(uchar4),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    double sum = 0;
    for (int i = 0; i < kColumns * kRows; i += 13) sum += picture[i].x + picture[i].y;
    return sum;
  }

  double run() {
    double sum = 0;
    for (int shot = 0; shot < kShots; ++shot) sum += shoot();
    return sum;
  }
};

// ---- tempering ----
//
// Expected first: mapped. For each of 200 turns 128 bytes go up and 128 come down, around a kernel
// of some microseconds, and the host decides by what came down which copies of the magnet swap
// their temperatures. So it cannot be later, and bytes are next to nothing: what the calls cost is.

constexpr int kCopies = 32, kGrid = 64, kSpins = kGrid * kGrid, kTurns = 200, kSweeps = 4;

// Bits that look random, of three numbers.
__device__ inline uint32_t bits_of(uint32_t one, uint32_t two, uint32_t three) {
  uint32_t bits = one * 0x9e3779b1u ^ (two + 1) * 0x85ebca77u ^ (three + 1) * 0xc2b2ae3du;
  bits = (bits ^ bits >> 15) * 0x2c1b3c6du;
  bits = (bits ^ bits >> 13) * 0x297a2d39u;
  return bits ^ bits >> 16;
}

// What the neighbours of a spin pull it to; `bonds` are those to the right, then those downwards.
__device__ inline int pull(const int8_t* spins, const int8_t* bonds, int i) {
  const int x = i % kGrid, y = i / kGrid;
  const int right = y * kGrid + (x + 1) % kGrid, left = y * kGrid + (x + kGrid - 1) % kGrid;
  const int down = (i + kGrid) % kSpins, up = (i + kSpins - kGrid) % kSpins;
  return bonds[i] * spins[right] + bonds[left] * spins[left] + bonds[kSpins + i] * spins[down] +
         bonds[kSpins + up] * spins[up];
}

// Turns spins by chance, at the inverse temperature of each copy; a block a copy.
__global__ void sweep(int8_t* all, const int8_t* bonds, const float* colds, int turn,
                      int* energies) {
  __shared__ int8_t spins[kSpins];
  __shared__ int energy;
  int8_t* own = all + blockIdx.x * kSpins;
  for (int i = threadIdx.x; i < kSpins; i += kThreads) spins[i] = own[i];
  if (threadIdx.x == 0) energy = 0;
  const float cold = colds[blockIdx.x];
  __syncthreads();
  for (int half = 0; half < 2 * kSweeps; ++half) {
    for (int pair = threadIdx.x; pair < kSpins / 2; pair += kThreads) {
      const int row = pair / (kGrid / 2);
      const int i = row * kGrid + pair % (kGrid / 2) * 2 + (row + half) % 2;
      const float more = 2.0f * spins[i] * pull(spins, bonds, i);
      const uint32_t bits = bits_of(i, blockIdx.x, turn * 2 * kSweeps + half);
      if ((bits >> 8) / 16777216.0f < __expf(-cold * more)) spins[i] = -spins[i];
    }
    __syncthreads();
  }
  int sum = 0;
  for (int i = threadIdx.x; i < kSpins; i += kThreads) {
    own[i] = spins[i];
    sum -= spins[i] * pull(spins, bonds, i);
  }
  atomicAdd(&energy, sum / 2);
  __syncthreads();
  if (threadIdx.x == 0) energies[blockIdx.x] = energy;
}

struct Tempering {
  int8_t *spins_above = nullptr, *bonds = nullptr;
  float *colds = nullptr, *colds_above = nullptr;
  int *energies = nullptr, *energies_above = nullptr;
  std::array<int, kCopies> copy_at{};  // of each temperature, the coldest last
  std::vector<int8_t> spins = std::vector<int8_t>(kSpins);
  bool mapped;
  int turn = 0;
  Random random{2};

  explicit Tempering(bool mapped)
      : colds(below<float>(mapped, kCopies)),
        energies(below<int>(mapped, kCopies)),
        mapped(mapped) {
    const auto any = [&](size_t count) {
      std::vector<int8_t> found(count);
      for (int8_t& one : found) one = static_cast<int8_t>(2 * random.below(2) - 1);
      return above(found);
    };
    spins_above = any(static_cast<size_t>(kCopies) * kSpins);
    bonds = any(2 * kSpins);
    colds_above = mapped ? colds : above<float>(kCopies);
    energies_above = mapped ? energies : above<int>(kCopies);
    for (int i = 0; i < kCopies; ++i) copy_at[i] = i;
  }

  static float cold_of(int place) { return 0.2f + 0.04f * static_cast<float>(place); }

  void take_turn() {
    for (int place = 0; place < kCopies; ++place) colds[copy_at[place]] = cold_of(place);
    if (!mapped)
      CHECK(cudaMemcpy(colds_above, colds, kCopies * sizeof(float), cudaMemcpyHostToDevice));
    sweep<<<kCopies, kThreads>>>(spins_above, bonds, colds_above, turn, energies_above);
    CHECK(cudaGetLastError());
    if (mapped)
      CHECK(cudaStreamSynchronize(nullptr));
    else
      CHECK(cudaMemcpy(energies, energies_above, kCopies * sizeof(int), cudaMemcpyDeviceToHost));
  }

  // Lets copies swap their temperatures with their neighbours', by chance.
  void swap() {
    for (int place = turn % 2; place + 1 < kCopies; place += 2) {
      int &one = copy_at[place], &other = copy_at[place + 1];
      const double gain = (cold_of(place + 1) - cold_of(place)) * (energies[other] - energies[one]);
      if (random.between(0, 1) < std::exp(gain)) std::swap(one, other);
    }
  }

  // Returns the energies of all turns, by a sum, and what the coldest copy looks like, by another.
  double run() {
    double sum = 0;
    for (int number = 0; number < kTurns; ++number, ++turn) {
      take_turn();
      for (int place = 0; place < kCopies; ++place) sum += energies[copy_at[place]] * (1 + place);
      swap();
    }
    CHECK(cudaMemcpy(spins.data(), spins_above + copy_at.back() * kSpins, kSpins,
                     cudaMemcpyDeviceToHost));
    for (int i = 0; i < kSpins; ++i) sum += spins[i] * (i % 7);
    return sum;
  }
};

// ---- dedupe ----
//
// Expected first: prefetch (which some call streams, or async). All is pinned, but one segment, of
// 4 to 12 MiB, is sent, hashed and looked up before the next one is sent: the link, the GPU and
// the host take turns, each about as long. All bytes and all hashes are needed.

constexpr int kPiece = 2048, kLeast = 2048, kMost = 6144, kSegments = 12;
constexpr int kHash = 8, kIndexBits = 20;
constexpr size_t kBackup = 256 * kMiB, kSegment = static_cast<size_t>(kMost) * kPiece;

__constant__ uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__constant__ uint32_t kBegin[kHash] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

__device__ inline uint32_t rotated(uint32_t bits, int by) {
  return __funnelshift_r(bits, bits, by);
}

// Takes a SHA-256 on by 64 bytes, in 16 words.
__device__ void take_in(uint32_t* words, uint32_t* hash) {
  uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3];
  uint32_t e = hash[4], f = hash[5], g = hash[6], h = hash[7];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    uint32_t& word = words[i % 16];
    if (i >= 16) {
      const uint32_t old = words[(i + 1) % 16], late = words[(i + 14) % 16];
      word += (rotated(old, 7) ^ rotated(old, 18) ^ old >> 3) + words[(i + 9) % 16] +
              (rotated(late, 17) ^ rotated(late, 19) ^ late >> 10);
    }
    const uint32_t one = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                         ((e & f) ^ (~e & g)) + kRound[i] + word;
    const uint32_t two =
        (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one;
    d = c, c = b, b = a, a = one + two;
  }
  hash[0] += a, hash[1] += b, hash[2] += c, hash[3] += d;
  hash[4] += e, hash[5] += f, hash[6] += g, hash[7] += h;
}

// Finds the SHA-256 of each piece of 2 KiB; a thread a piece.
__global__ void digest(const uint4* data, int pieces, uint32_t* hashes) {
  const int piece = blockIdx.x * kWarp + threadIdx.x;
  if (piece >= pieces) return;
  uint32_t words[16], hash[kHash];
  for (int i = 0; i < kHash; ++i) hash[i] = kBegin[i];
  const uint4* from = data + static_cast<size_t>(piece) * (kPiece / sizeof(uint4));
  for (int block = 0; block < kPiece / 64; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 four = from[block * 4 + i];
      words[4 * i] = __byte_perm(four.x, 0, 0x0123);
      words[4 * i + 1] = __byte_perm(four.y, 0, 0x0123);
      words[4 * i + 2] = __byte_perm(four.z, 0, 0x0123);
      words[4 * i + 3] = __byte_perm(four.w, 0, 0x0123);
    }
    take_in(words, hash);
  }
#pragma unroll
  for (int i = 1; i < 15; ++i) words[i] = 0;
  words[0] = 0x80000000u;
  words[15] = kPiece * 8;
  take_in(words, hash);
  for (int i = 0; i < kHash; ++i) hashes[piece * kHash + i] = hash[i];
}

struct Dedupe {
  struct Place {
    uint4* data = reinterpret_cast<uint4*>(above<uint8_t>(kSegment));
    uint32_t* hashes = below<uint32_t>(true, kMost* kHash);
    uint32_t* hashes_above = above<uint32_t>(kMost * kHash);
    cudaStream_t stream = new_stream();
    int pieces = 0;
  };
  std::vector<Place> places;
  uint8_t* backup = below<uint8_t>(true, kBackup);
  std::vector<uint64_t> index = std::vector<uint64_t>(1 << kIndexBits);
  bool ahead;
  size_t at = 0;
  Random random{3};

  explicit Dedupe(bool ahead) : places(ahead ? 2 : 1), ahead(ahead) {
    for (size_t i = 0; i < kBackup; i += kPiece) {
      const size_t old = random.next() % kBackup / kPiece * kPiece;
      if (old < i && random.below(3) == 0) {
        std::memcpy(backup + i, backup + old, kPiece);
        continue;
      }
      for (size_t byte = i; byte < i + kPiece; byte += sizeof(uint32_t)) {
        const uint32_t bits = random.next();
        std::memcpy(backup + byte, &bits, sizeof(bits));
      }
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Sends the next segment, and launches all that its hashes need.
  void start(Place& place) {
    place.pieces = kLeast + random.below(kMost - kLeast);
    const size_t bytes = static_cast<size_t>(place.pieces) * kPiece;
    CHECK(cudaMemcpyAsync(place.data, backup + at, bytes, cudaMemcpyHostToDevice, place.stream));
    at = (at + bytes) % (kBackup - kSegment);
    const int blocks = (place.pieces + kWarp - 1) / kWarp;
    digest<<<blocks, kWarp, 0, place.stream>>>(place.data, place.pieces, place.hashes_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(place.hashes, place.hashes_above, place.pieces * kHash * sizeof(uint32_t),
                          cudaMemcpyDeviceToHost, place.stream));
  }

  // Returns whether a hash was in the index; it is afterwards.
  bool known(uint64_t hash) {
    size_t slot = hash >> (64 - kIndexBits);
    while (index[slot] != 0 && index[slot] != hash) slot = (slot + 1) % index.size();
    return std::exchange(index[slot], hash) == hash;
  }

  // Returns what a segment's hashes are by a sum, that of new ones twice.
  double look_up(const Place& place) {
    double sum = 0;
    for (int piece = 0; piece < place.pieces; ++piece) {
      uint64_t hash = 0;
      std::memcpy(&hash, place.hashes + piece * kHash, sizeof(hash));
      sum += static_cast<double>(hash % 1024) * (known(hash) ? 1 : 2);
    }
    return sum;
  }

  double run() {
    double sum = 0;
    for (int segment = 0; segment < kSegments; ++segment) {
      Place& place = places[segment % places.size()];
      if (!ahead || segment == 0) start(place);
      if (ahead && segment + 1 < kSegments) start(places[(segment + 1) % places.size()]);
      CHECK(cudaStreamSynchronize(place.stream));
      sum += look_up(place);
    }
    return sum;
  }
};

// ---- ultrasound ----
//
// Expected first: pin. Samples come from a card that writes to pinned memory, two streams and two
// places are there, and calls are asynchronous; but images, of 3 MiB, go to vectors, and each of
// those copies holds the host until the kernel before it is done and the image is there.

constexpr int kSensors = 128, kSamples = 1024, kFewAngles = 4, kMostAngles = 8, kScans = 12;
constexpr int kImageWide = 512, kImageDeep = 768, kImage = kImageWide * kImageDeep;
constexpr size_t kOfAngle = static_cast<size_t>(kSensors) * kSamples;
constexpr size_t kScan = kMostAngles * kOfAngle;
constexpr size_t kHeard = 256 * kMiB / sizeof(short2);

// Adds up for each pixel what all sensors heard when its echo came, of each angle of the wave.
__global__ void focus(const short2* heard, int angles, float2* image) {
  const int pixel = blockIdx.x * kThreads + threadIdx.x;
  const float x = (pixel % kImageWide - kImageWide / 2) * 0.25f, z = 4 + pixel / kImageWide * 0.4f;
  float2 sum = make_float2(0, 0);
  for (int angle = 0; angle < angles; ++angle) {
    const float lean = 0.05f * (angle - angles / 2), out = z * __cosf(lean) + x * __sinf(lean);
    const short2* of_angle = heard + angle * kOfAngle;
    for (int sensor = 0; sensor < kSensors; ++sensor) {
      const float aside = x - (sensor - kSensors / 2);
      const float when = fmaxf(1.2f * (out + sqrtf(aside * aside + z * z)), 0);
      const int sample = min(static_cast<int>(when), kSamples - 2);
      const float part = when - floorf(when);
      const short2 one = of_angle[sensor * kSamples + sample];
      const short2 next = of_angle[sensor * kSamples + sample + 1];
      sum.x += one.x + part * (next.x - one.x);
      sum.y += one.y + part * (next.y - one.y);
    }
  }
  image[pixel] = sum;
}

struct Ultrasound {
  struct Place {
    float2* image;  // on the host
    short2* heard = above<short2>(kScan);
    float2* image_above = above<float2>(kImage);
    cudaStream_t stream = new_stream();
  };
  std::vector<Place> places;
  short2* heard = below<short2>(true, kHeard);
  size_t at = 0;
  Random random{4};

  explicit Ultrasound(bool pinned) {
    for (int i = 0; i < 2; ++i) places.push_back({below<float2>(pinned, kImage)});
    for (size_t i = 0; i < kHeard; ++i) {
      const uint32_t bits = random.next();
      std::memcpy(heard + i, &bits, sizeof(bits));
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Launches all that makes an image of the next waves.
  void start(const Place& place) {
    const int angles = kFewAngles + random.below(kMostAngles - kFewAngles + 1);
    CHECK(cudaMemcpyAsync(place.heard, heard + at, angles * kOfAngle * sizeof(short2),
                          cudaMemcpyHostToDevice, place.stream));
    at = (at + angles * kOfAngle + 2048) % (kHeard - kScan);
    focus<<<kImage / kThreads, kThreads, 0, place.stream>>>(place.heard, angles, place.image_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(place.image, place.image_above, kImage * sizeof(float2),
                          cudaMemcpyDeviceToHost, place.stream));
  }

  // Returns how bright some of an image is, once it is there.
  static double show(const Place& place) {
    CHECK(cudaStreamSynchronize(place.stream));
    double sum = 0;
    for (int i = 0; i < kImage; i += 113)
      sum += std::log1p(std::hypot(place.image[i].x, place.image[i].y));
    return sum;
  }

  double run() {
    double sum = 0;
    for (int scan = 0; scan < kScans; ++scan) {
      const Place& place = places[scan % places.size()];
      if (scan >= static_cast<int>(places.size())) sum += show(place);
      start(place);
    }
    for (const Place& place : places) sum += show(place);
    return sum;
  }
};

// ---- align ----
//
// Expected first: defer. For the best match of each peptide, 8 bytes, the host waits, so that the
// GPU idles until the next one is launched; it reads them at the end, to sort them.

constexpr int kKnown = 1 << 14, kQueries = 64, kShort = 16, kLongest = 40, kKinds = 20;
constexpr int kKnownLongest = 64, kGap = 6;

// Finds the score of the best alignment of a peptide and each known one, a thread each; the first
// residues of all known ones lie together, then the second ones. `best` is the best score, and in
// its low bits which one has it.
__global__ void align(const uint8_t* query, int length, const uint8_t* known, const int* lengths,
                      const int8_t* likeness, unsigned long long* best) {
  __shared__ int8_t scores[kKinds * kKinds];
  __shared__ uint8_t residues[kLongest];
  for (int i = threadIdx.x; i < kKinds * kKinds; i += blockDim.x) scores[i] = likeness[i];
  if (threadIdx.x < length) residues[threadIdx.x] = query[threadIdx.x];
  __syncthreads();
  const int one = blockIdx.x * blockDim.x + threadIdx.x;
  short row[kLongest];
  for (int j = 0; j < length; ++j) row[j] = 0;
  int most = 0;
  for (int i = 0; i < lengths[one]; ++i) {
    const int8_t* of_residue = scores + known[i * kKnown + one] * kKinds;
    int left = 0, above_left = 0;
    for (int j = 0; j < length; ++j) {
      const int above = row[j];
      const int both = above_left + of_residue[residues[j]];
      left = max(max(0, both), max(above, left) - kGap);
      row[j] = static_cast<short>(left);
      most = max(most, left);
      above_left = above;
    }
  }
  uint32_t found = most << 16 | (0xffff - one);
  found = __reduce_max_sync(0xffffffff, found);
  if (threadIdx.x % kWarp == 0) atomicMax(best, static_cast<unsigned long long>(found));
}

struct Align {
  uint8_t *known = nullptr, *queries_above = above<uint8_t>(kQueries * kLongest);
  int* lengths = nullptr;
  int8_t* likeness = nullptr;
  unsigned long long* best_above = above<unsigned long long>(kQueries);
  std::vector<uint8_t> peptides = std::vector<uint8_t>(1 << 20);
  std::array<unsigned long long, kQueries> best{};
  bool at_end;
  size_t at = 0;
  Random random{5};

  explicit Align(bool at_end) : at_end(at_end) {
    for (uint8_t& one : peptides) one = any();
    std::vector<uint8_t> residues(static_cast<size_t>(kKnownLongest) * kKnown);
    for (uint8_t& one : residues) one = any();
    known = above(residues);
    std::vector<int> long_each(kKnown);
    for (int& one : long_each) one = kKnownLongest / 2 + random.below(kKnownLongest / 2);
    std::sort(long_each.begin(), long_each.end());
    lengths = above(long_each);
    std::vector<int8_t> scores(kKinds * kKinds);
    for (int i = 0; i < kKinds; ++i)
      for (int j = 0; j <= i; ++j)
        scores[i * kKinds + j] = scores[j * kKinds + i] =
            static_cast<int8_t>(i == j ? 4 + random.below(6) : random.below(7) - 4);
    likeness = above(scores);
  }

  uint8_t any() { return static_cast<uint8_t>(random.below(kKinds)); }

  void find_best(int query) {
    constexpr int kOfBlock = 128;
    const int length = kShort + random.below(kLongest - kShort);
    CHECK(cudaMemsetAsync(best_above + query, 0, sizeof(best[0]), nullptr));
    align<<<kKnown / kOfBlock, kOfBlock>>>(queries_above + query * kLongest, length, known, lengths,
                                           likeness, best_above + query);
    CHECK(cudaGetLastError());
  }

  void get(int first, int count) {
    CHECK(cudaMemcpy(best.data() + first, best_above + first, count * sizeof(best[0]),
                     cudaMemcpyDeviceToHost));
  }

  // Returns the matches of all peptides, the best first, by a sum.
  double run() {
    constexpr size_t kBytes = static_cast<size_t>(kQueries) * kLongest;
    CHECK(cudaMemcpy(queries_above, peptides.data() + at, kBytes, cudaMemcpyHostToDevice));
    at = (at + kBytes + 7) % (peptides.size() - kBytes);
    for (int query = 0; query < kQueries; ++query) {
      find_best(query);
      if (!at_end) get(query, 1);
    }
    if (at_end) get(0, kQueries);
    std::sort(best.rbegin(), best.rend());
    double sum = 0;
    for (int i = 0; i < kQueries; ++i) sum += static_cast<double>(best[i]) / (1 + i);
    return sum;
  }
};

// ---- lens ----
//
// Expected: no advice. Each of four threads sends 256 KiB, waits for 1 MiB, both pageable, and adds
// it up; a kernel between them, which fills the GPU, takes ten times as long as that, and those of
// three other threads are launched meanwhile. What is left is the last image of 24.

constexpr int kStars = 1 << 14, kSky = 512, kJobs = 24, kWorkers = 4;
constexpr int kAllStars = 1 << 20, kPixels = kSky * kSky;

// Finds how bright what is behind the stars looks at each pixel, as they bend its light.
__global__ void bend(const float4* stars, float* image) {
  __shared__ float4 near[kThreads];
  const int pixel = blockIdx.x * kThreads + threadIdx.x;
  const float x = (pixel % kSky) / 256.0f - 1, y = (pixel / kSky) / 256.0f - 1;
  float to_x = x, to_y = y;
  for (int first = 0; first < kStars; first += kThreads) {
    near[threadIdx.x] = stars[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < kThreads; ++i) {
      const float4 star = near[i];
      const float right = x - star.x, up = y - star.y;
      const float by = __fdividef(star.z, right * right + up * up + star.w);
      to_x -= by * right;
      to_y -= by * up;
    }
    __syncthreads();
  }
  image[pixel] = __expf(-8 * (to_x * to_x + to_y * to_y)) + __expf(-2 * fabsf(to_x * to_y));
}

struct Lens {
  struct Worker {
    float4 *stars, *stars_above = above<float4>(kStars);  // on the host, and on the GPU
    float *image, *image_above = above<float>(kPixels);
    cudaStream_t stream = new_stream();
  };
  std::vector<Worker> workers;
  std::vector<float4> all = std::vector<float4>(kAllStars);
  std::array<double, kJobs> sums{};
  size_t at = 0;

  explicit Lens(bool pinned) {
    Random random(6);
    for (float4& star : all)
      star = {random.between(-1.2f, 1.2f), random.between(-1.2f, 1.2f), random.between(0, 4e-5f),
              1e-4f};
    for (int i = 0; i < kWorkers; ++i) {
      Worker one{};
      one.stars = below<float4>(pinned, kStars);
      one.image = below<float>(pinned, kPixels);
      workers.push_back(one);
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Returns the sum of some of an image of stars.
  static double sum_of(const Worker& worker, const float4* stars) {
    constexpr size_t kBytes = kStars * sizeof(float4), kImageBytes = kPixels * sizeof(float);
    std::memcpy(worker.stars, stars, kBytes);
    CHECK(cudaMemcpyAsync(worker.stars_above, worker.stars, kBytes, cudaMemcpyHostToDevice,
                          worker.stream));
    bend<<<kPixels / kThreads, kThreads, 0, worker.stream>>>(worker.stars_above,
                                                             worker.image_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(worker.image, worker.image_above, kImageBytes, cudaMemcpyDeviceToHost,
                          worker.stream));
    CHECK(cudaStreamSynchronize(worker.stream));
    double sum = 0;
    for (int i = 0; i < kPixels; i += 3) sum += worker.image[i];
    return sum;
  }

  // Returns the sum of all images, whoever made them.
  double run() {
    std::atomic<int> next{0};
    const auto work = [&](const Worker& worker) {
      for (int job = next++; job < kJobs; job = next++)
        sums[job] = sum_of(worker, all.data() + (at + job * kStars) % (kAllStars - kStars));
    };
    std::vector<std::thread> threads;
    for (const Worker& worker : workers) threads.emplace_back(work, std::cref(worker));
    for (std::thread& thread : threads) thread.join();
    at = (at + kJobs * kStars + 4099) % (kAllStars - kStars);
    double sum = 0;
    for (const double one : sums) sum += one;
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Voxels>("voxels"), named<Tempering>("tempering"), named<Dedupe>("dedupe"),
                    named<Ultrasound>("ultrasound"), named<Align>("align"), named<Lens>("lens")});
}
