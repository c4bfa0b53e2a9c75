// Six CUDA C++ programs for the closed loop of advise, the fifteenth set; see fifteenth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o fifteenth benchmarks/advise/fifteenth.cu
//     fifteenth merkle|quotes|wafer|fracture|waveforms|phylo before|after [STEPS]
//
// merkle: each layer of a tree of digests comes down, and goes up again for the next one to be made
// of it; after: it stays on the GPU, too. quotes: the best offers of 120 order books come down by a
// call each; after: all by one. wafer: four threads send pictures of pageable memory, each in a
// stream of its own; after: of pinned memory. fracture: how far a plate is stretched comes down
// after each moment; after: a kernel writes it to mapped host memory. waveforms: the host waits for
// a block of echoes before it sends the next one; after: each of two blocks has a stream of its
// own. phylo: kernels of more than a millisecond find how likely a tree is, between 256 bytes up
// and 8 down: nothing is to be gained; after: pinned memory.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr uint32_t kAll = 0xffffffff;

// ---- merkle ----
//
// Expected first: keep. A function of a library makes a layer's digests of those of the layer
// below, which it is given in (pinned) memory of the host: 16 MB go up for each tree, but 8 MB of
// them just came down. They are to come down, since proofs are made of them on the host.

constexpr int kLeaves = 1 << 18, kTrees = 4, kProofs = 64;

struct Digest {
  uint32_t words[8];
};

__constant__ uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ inline uint32_t turned(uint32_t bits, int by) {
  return bits >> by | bits << (32 - by);
}

// Adds a block of 16 words to a digest by SHA-256.
__device__ void compress(uint32_t* digest, uint32_t* words) {
  uint32_t a = digest[0], b = digest[1], c = digest[2], d = digest[3];
  uint32_t e = digest[4], f = digest[5], g = digest[6], h = digest[7];
#pragma unroll
  for (int round = 0; round < 64; ++round) {
    if (round >= 16) {
      const uint32_t far = words[(round + 1) % 16], near = words[(round + 14) % 16];
      words[round % 16] += (turned(far, 7) ^ turned(far, 18) ^ far >> 3) + words[(round + 9) % 16] +
                           (turned(near, 17) ^ turned(near, 19) ^ near >> 10);
    }
    const uint32_t one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) +
                         kRounds[round] + words[round % 16];
    const uint32_t two =
        (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  digest[0] += a, digest[1] += b, digest[2] += c, digest[3] += d;
  digest[4] += e, digest[5] += f, digest[6] += g, digest[7] += h;
}

// Makes a digest of each two of the layer below, which are 64 bytes; a thread for each.
__global__ void hash_pairs(const Digest* under, Digest* layer, int count) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  if (own >= count) return;
  Digest found = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                   0x1f83d9ab, 0x5be0cd19}};
  uint32_t words[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) words[i] = under[2 * own + i / 8].words[i % 8];
  compress(found.words, words);
#pragma unroll
  for (int i = 0; i < 16; ++i) words[i] = i == 0 ? 0x80000000 : i == 15 ? 512 : 0;
  compress(found.words, words);
  layer[own] = found;
}

struct Merkle {
  Digest* tree = below<Digest>(true, 2 * kLeaves);  // layer by layer, leaves first
  Digest *given = above<Digest>(kLeaves), *made = above<Digest>(kLeaves);
  bool stay;
  uint32_t number = 0;
  Random random{1};

  explicit Merkle(bool stay) : stay(stay) {
    for (int i = 0; i < kLeaves; ++i)
      for (uint32_t& word : tree[i].words) word = random.next();
    CHECK(cudaDeviceSynchronize());
  }

  // Makes the layer above `count` digests of the host, and puts it behind them.
  void make_layer(Digest* layer, int count) {
    if (!stay || count == kLeaves)
      CHECK(cudaMemcpy(given, layer, count * sizeof(Digest), cudaMemcpyHostToDevice));
    const int half = count / 2;
    hash_pairs<<<(half + kThreads - 1) / kThreads, kThreads>>>(given, made, half);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(layer + count, made, half * sizeof(Digest), cudaMemcpyDeviceToHost));
    if (stay) std::swap(given, made);
  }

  // Returns what proves that a leaf is in the tree: a digest of each layer, by a sum.
  double proof_of(int leaf) const {
    double sum = 0;
    const Digest* layer = tree;
    for (int count = kLeaves; count > 1; layer += count, count /= 2, leaf /= 2)
      sum += layer[leaf ^ 1].words[count % 7];
    return sum;
  }

  // Returns some proofs of trees, and what is on top of these, by a sum.
  double run() {
    double sum = 0;
    for (int turn = 0; turn < kTrees; ++turn) {
      ++number;
      for (int i = 0; i < kLeaves; i += 256) tree[i].words[0] = number + i;  // what was changed
      Digest* layer = tree;
      for (int count = kLeaves; count > 1; layer += count, count /= 2) make_layer(layer, count);
      for (int i = 0; i < kProofs; ++i) sum += proof_of(random.below(kLeaves));
      sum += layer->words[0];
    }
    return sum;
  }
};

// ---- quotes ----
//
// Expected first: batch. Offers of a moment go up by one copy, and a kernel adds them to all books;
// but what the best ones are then is in each book, and comes down by a call for each, which takes
// longer than all the rest. The host needs them to know what it offers itself.

constexpr int kBooks = 120, kLevels = 1024, kUpdates = 64, kMoments = 4, kNear = 8;

struct Update {
  int side, level, change;
};

// What changes in a book.
struct Changes {
  int middle;  // of the levels: who offers worse than this has sold, or bought
  Update updates[kUpdates];
};

struct Top {
  int bid, ask, near_bid, near_ask, bid_size, ask_size, traded, offers;
};

struct Book {
  int sizes[2][kLevels];  // of those who buy, and of those who sell
  Top top;
};

// Adds changes to each book, and finds what is best there then; a block for a book. It goes to
// `tops`, or into the book where there are none.
__global__ void change(Book* books, const Changes* all, Top* tops) {
  static_assert(kUpdates <= kThreads);
  Book& book = books[blockIdx.x];
  const Changes& own = all[blockIdx.x];
  __shared__ Top top;
  if (threadIdx.x == 0) top = {-1, kLevels, 0, 0, 0, 0, 0, 0};
  if (threadIdx.x < kUpdates) {
    const Update one = own.updates[threadIdx.x];
    atomicAdd(&book.sizes[one.side][one.level], one.change);
  }
  __syncthreads();
  for (int level = threadIdx.x; level < kLevels; level += kThreads)
    for (int side = 0; side < 2; ++side) {
      const bool gone = side == 0 ? level >= own.middle : level < own.middle;
      const int size = max(book.sizes[side][level], 0);
      if (gone) atomicAdd(&top.traded, size);
      book.sizes[side][level] = gone ? 0 : size;
      if (gone || size == 0) continue;
      side == 0 ? atomicMax(&top.bid, level) : atomicMin(&top.ask, level);
      atomicAdd(&top.offers, 1);
    }
  __syncthreads();
  for (int level = threadIdx.x; level < kLevels; level += kThreads) {
    if (level <= top.bid && level > top.bid - kNear) atomicAdd(&top.near_bid, book.sizes[0][level]);
    if (level >= top.ask && level < top.ask + kNear) atomicAdd(&top.near_ask, book.sizes[1][level]);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  top.bid_size = top.bid < 0 ? 0 : book.sizes[0][top.bid];
  top.ask_size = top.ask == kLevels ? 0 : book.sizes[1][top.ask];
  (tops == nullptr ? book.top : tops[blockIdx.x]) = top;
}

struct Quotes {
  Changes *changes = below<Changes>(true, kBooks), *changes_above = above<Changes>(kBooks);
  Book* books = above<Book>(kBooks);
  Top* tops_above;
  std::vector<Top> tops = std::vector<Top>(kBooks);
  std::vector<int> held = std::vector<int>(kBooks);
  Random random{2};

  explicit Quotes(bool together) : tops_above(together ? above<Top>(kBooks) : nullptr) {
    for (int i = 0; i < kBooks; ++i) changes[i].middle = kLevels / 2;
    CHECK(cudaDeviceSynchronize());
  }

  // Puts down what others offer, or take back, and what the host offers for what it holds.
  void offer(int number) {
    Changes& own = changes[number];
    for (Update& one : own.updates) {
      const uint32_t bits = random.next();
      const int side = static_cast<int>(bits % 2), off = static_cast<int>(bits / 2 % 64);
      const int level = side == 0 ? own.middle - 1 - off : own.middle + off;
      one = {side, level, static_cast<int>(bits / 256 % 100) - 30};
    }
    if (held[number] > 0) own.updates[0] = {1, own.middle + 1, std::min(held[number], 50)};
  }

  void fetch_tops() {
    if (tops_above != nullptr) {
      CHECK(cudaMemcpy(tops.data(), tops_above, kBooks * sizeof(Top), cudaMemcpyDeviceToHost));
      return;
    }
    for (int i = 0; i < kBooks; ++i)
      CHECK(cudaMemcpy(&tops[i], &books[i].top, sizeof(Top), cudaMemcpyDeviceToHost));
  }

  // Buys or sells by what is in a book, which moves with those who are more; returns what it says.
  double decide(int number) {
    const Top& top = tops[number];
    int& middle = changes[number].middle;
    const int more = top.near_bid - top.near_ask, all = top.near_bid + top.near_ask + 1;
    const int by = (5 * more > all) - (5 * more < -all);
    held[number] = std::min(std::max(held[number] + by * std::min(top.traded, 20), -500), 500);
    middle = std::min(std::max(middle + by + random.below(3) - 1, 100), kLevels - 100);
    return top.bid + top.ask + 0.01 * (top.bid_size + top.ask_size) + top.offers + held[number];
  }

  double run() {
    double sum = 0;
    for (int moment = 0; moment < kMoments; ++moment) {
      for (int i = 0; i < kBooks; ++i) offer(i);
      CHECK(cudaMemcpyAsync(changes_above, changes, kBooks * sizeof(Changes),
                            cudaMemcpyHostToDevice, nullptr));
      change<<<kBooks, kThreads>>>(books, changes_above, tops_above);
      CHECK(cudaGetLastError());
      fetch_tops();
      for (int i = 0; i < kBooks; ++i) sum += decide(i);
    }
    return sum;
  }
};

// ---- wafer ----
//
// Expected first: pin. Four threads, each with a camera and a stream, look at dies of a wafer: 4
// MiB of pageable memory for each die, though asynchronous, take as long as the driver takes to
// copy them into memory of its own; kernels take a fifth of it.

constexpr int kInspectors = 4, kDies = 6, kPictures = 4, kDieSide = 2048;
constexpr int kDiePixels = kDieSide * kDieSide, kMostSpots = 2048, kReach = 2, kFaults = 40;
constexpr int kUnlike = 30;

struct Spots {
  int count;
  int pixels[kMostSpots];
};

// Lists where a die is not what it should be, around a pixel on the average.
__global__ void inspect(const uint8_t* die, const uint8_t* ideal, Spots* spots) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  if (x < kReach || x >= kDieSide - kReach || y < kReach || y >= kDieSide - kReach) return;
  int sum = 0;
#pragma unroll
  for (int down = -kReach; down <= kReach; ++down)
#pragma unroll
    for (int right = -kReach; right <= kReach; ++right) {
      const int at = (y + down) * kDieSide + x + right;
      sum += die[at] - ideal[at];
    }
  if (abs(sum) <= kUnlike * (2 * kReach + 1) * (2 * kReach + 1)) return;
  const int place = atomicAdd(&spots->count, 1);
  if (place < kMostSpots) spots->pixels[place] = y * kDieSide + x;
}

struct Wafer {
  struct Inspector {
    std::array<uint8_t*, kPictures> pictures;  // which the camera fills in turn
    Spots* spots;
    uint8_t* die = above<uint8_t>(kDiePixels);
    Spots* spots_above = above<Spots>(1);
    cudaStream_t stream = new_stream();
  };
  std::vector<Inspector> inspectors = std::vector<Inspector>(kInspectors);
  std::vector<uint8_t> ideal = std::vector<uint8_t>(kDiePixels);
  uint8_t* ideal_above = nullptr;
  int first = 0;
  Random random{3};

  explicit Wafer(bool pinned) {
    for (int i = 0; i < kDiePixels; ++i)
      ideal[i] = (i / 24 + i / kDieSide / 16) % 3 == 0 ? 150 : 60;
    ideal_above = above(ideal);
    for (Inspector& one : inspectors) {
      one.spots = below<Spots>(pinned, 1);
      for (uint8_t*& picture : one.pictures) {
        picture = below<uint8_t>(pinned, kDiePixels);
        take_picture(picture);
      }
    }
    CHECK(cudaDeviceSynchronize());
  }

  void take_picture(uint8_t* picture) {
    for (int i = 0; i < kDiePixels; i += 8) {
      const uint32_t bits = random.next();
      for (int j = 0; j < 8; ++j)
        picture[i + j] = static_cast<uint8_t>(ideal[i + j] + (bits >> 4 * j) % 8);
    }
    for (int fault = 0; fault < kFaults; ++fault) {
      const int x = 8 + random.below(kDieSide - 16), y = 8 + random.below(kDieSide - 16);
      for (int i = 0; i < 16; ++i) picture[(y + i / 4) * kDieSide + x + i % 4] += 90;
    }
  }

  // Returns how large and how bright what was found is, by a sum, whatever its order.
  static int64_t judge(const Spots& spots, const uint8_t* picture) {
    int64_t sum = 0;
    for (int i = 0; i < std::min(spots.count, kMostSpots); ++i) {
      const int at = spots.pixels[i];
      int bright = 0;
      for (int down = -kReach; down <= kReach; ++down)
        for (int right = -kReach; right <= kReach; ++right)
          bright += picture[at + down * kDieSide + right];
      sum += bright / 25 + at % 101;
    }
    return sum + 1000 * spots.count;
  }

  // Looks at the dies of a thread, the first of which has this number.
  int64_t inspect_dies(const Inspector& own, int number) const {
    int64_t sum = 0;
    for (int i = number; i < number + kDies; ++i) {
      uint8_t* picture = own.pictures[i % kPictures];
      for (int x = 0; x < kDieSide; ++x)  // the line above the die, where cameras put the time
        picture[x] = static_cast<uint8_t>(ideal[x] + (i >> x % 16 & 1));
      CHECK(cudaMemcpyAsync(own.die, picture, kDiePixels, cudaMemcpyHostToDevice, own.stream));
      CHECK(cudaMemsetAsync(own.spots_above, 0, sizeof(int), own.stream));
      inspect<<<dim3(kDieSide / kThreads, kDieSide), kThreads, 0, own.stream>>>(
          own.die, ideal_above, own.spots_above);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(own.spots, own.spots_above, sizeof(Spots), cudaMemcpyDeviceToHost,
                            own.stream));
      CHECK(cudaStreamSynchronize(own.stream));
      sum += judge(*own.spots, picture);
    }
    return sum;
  }

  double run() {
    std::array<int64_t, kInspectors> sums{};
    std::vector<std::thread> threads;
    for (int i = 0; i < kInspectors; ++i)
      threads.emplace_back([&, i] { sums[i] = inspect_dies(inspectors[i], first); });
    for (std::thread& thread : threads) thread.join();
    first += kDies;
    double sum = 0;
    for (const int64_t one : sums) sum += static_cast<double>(one);
    return sum;
  }
};

// ---- fracture ----
//
// Expected first: mapped. Two kernels of some microseconds take a plate on by a moment; then the
// host has to know how far it is stretched, 8 bytes, since the next moment is shorter where it
// breaks. To fetch them takes about as long as to find them.

constexpr int kPlate = 256, kNodes = kPlate * kPlate, kBreaths = 300, kBroken = 3000;
constexpr int kOldest = 6000;  // moments

// How far the plate is stretched at most, as bits of a float that is not negative, and how many
// bonds broke in a moment.
struct State {
  unsigned int stretched;
  int broken;
};

struct Plate {
  float2 *nodes, *speeds;
  float2 *right, *down;  // pulls of the bonds to the next node in these directions
  uint8_t *right_whole, *down_whole;
};

// Returns how a bond pulls at its first node, and breaks it if that is too much.
__device__ inline float2 pull_of(const Plate& plate, int one, int two, uint8_t* whole,
                                 uint32_t plates, float& stretched, int& broken) {
  if (!whole[one]) return make_float2(0, 0);
  const float2 here = plate.nodes[one], there = plate.nodes[two];
  const float x = there.x - here.x, y = there.y - here.y, length = sqrtf(x * x + y * y);
  const float longer = length - 1;
  uint32_t bits = (one + plates * 7919u) * 2654435761u ^ (two - one);
  bits ^= bits >> 16;
  bits *= 2246822519u;
  bits ^= bits >> 13;
  if (longer > 0.1f * (0.7f + 0.6f * ((bits >> 8) * (1 / 16777216.0f)))) {
    whole[one] = 0;
    ++broken;
    return make_float2(0, 0);
  }
  stretched = fmaxf(stretched, fabsf(longer));
  const float by = longer / fmaxf(length, 1e-3f);
  return make_float2(by * x, by * y);
}

// Finds how all bonds pull, and which break.
__global__ void stretch(Plate plate, uint32_t plates, State* tally) {
  __shared__ unsigned int most;
  __shared__ int gone;
  if (threadIdx.x == 0) most = 0, gone = 0;
  __syncthreads();
  const int own = blockIdx.x * kThreads + threadIdx.x;
  float stretched = 0;
  int broken = 0;
  plate.right[own] = own % kPlate + 1 == kPlate ? make_float2(0, 0)
                                                : pull_of(plate, own, own + 1, plate.right_whole,
                                                          plates, stretched, broken);
  plate.down[own] = own / kPlate + 1 == kPlate ? make_float2(0, 0)
                                               : pull_of(plate, own, own + kPlate, plate.down_whole,
                                                         plates, stretched, broken);
  for (int by = kWarp / 2; by > 0; by /= 2) {
    stretched = fmaxf(stretched, __shfl_xor_sync(kAll, stretched, by));
    broken += __shfl_xor_sync(kAll, broken, by);
  }
  if (threadIdx.x % kWarp == 0) {
    atomicMax(&most, __float_as_uint(stretched));
    atomicAdd(&gone, broken);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  atomicMax(&tally->stretched, most);
  if (gone > 0) atomicAdd(&tally->broken, gone);
}

// Moves the nodes; those at both ends go as they are pulled. Puts down the state, too.
__global__ void shift(Plate plate, float moment, float pulled, State* tally, State* state) {
  const int own = blockIdx.x * kThreads + threadIdx.x, x = own % kPlate, y = own / kPlate;
  float2 pull = plate.right[own], node = plate.nodes[own], speed = plate.speeds[own];
  pull.x += plate.down[own].x, pull.y += plate.down[own].y;
  if (x > 0) pull.x -= plate.right[own - 1].x, pull.y -= plate.right[own - 1].y;
  if (y > 0) pull.x -= plate.down[own - kPlate].x, pull.y -= plate.down[own - kPlate].y;
  speed.x = 0.9995f * speed.x + moment * pull.x, speed.y = 0.9995f * speed.y + moment * pull.y;
  if (y == 0) speed = make_float2(0, -pulled);
  if (y == kPlate - 1) speed = make_float2(0, pulled);
  node.x += moment * speed.x, node.y += moment * speed.y;
  plate.speeds[own] = speed;
  plate.nodes[own] = node;
  if (own > 0) return;
  *state = *tally;
  *tally = {0, 0};
}

// Puts a new plate where one broke.
__global__ void mend(Plate plate) {
  const int own = blockIdx.x * kThreads + threadIdx.x;
  plate.nodes[own] = make_float2(own % kPlate, own / kPlate);
  plate.speeds[own] = make_float2(0, 0);
  plate.right_whole[own] = plate.down_whole[own] = 1;
}

struct Fracture {
  Plate plate{above<float2>(kNodes), above<float2>(kNodes),  above<float2>(kNodes),
              above<float2>(kNodes), above<uint8_t>(kNodes), above<uint8_t>(kNodes)};
  State *tally = above<State>(1), *state_above;
  bool mapped;
  uint32_t plates = 0;
  int broken = 0, age = 0;
  float moment = 0.25f, pulled = 0.06f;

  explicit Fracture(bool mapped)
      : state_above(mapped ? below<State>(true, 1) : above<State>(1)), mapped(mapped) {
    begin();
    CHECK(cudaDeviceSynchronize());
  }

  void begin() {
    mend<<<kNodes / kThreads, kThreads>>>(plate);
    CHECK(cudaGetLastError());
    ++plates;
    broken = age = 0;
  }

  // Takes the plate on by a moment; returns its state.
  State live() {
    stretch<<<kNodes / kThreads, kThreads>>>(plate, plates, tally);
    shift<<<kNodes / kThreads, kThreads>>>(plate, moment, pulled, tally, state_above);
    CHECK(cudaGetLastError());
    if (mapped) {
      CHECK(cudaStreamSynchronize(nullptr));
      return *state_above;
    }
    State found{};
    CHECK(cudaMemcpy(&found, state_above, sizeof(State), cudaMemcpyDeviceToHost));
    return found;
  }

  // Returns how far plates were stretched, and what broke, by a sum.
  double run() {
    double sum = 0;
    for (int i = 0; i < kBreaths; ++i) {
      const State state = live();
      float stretched = 0;
      std::memcpy(&stretched, &state.stretched, sizeof(stretched));
      broken += state.broken;
      moment = state.broken > 0 || stretched > 0.11f ? 0.1f : 0.25f;
      pulled = state.broken > 20 ? 0.03f : 0.06f;
      sum += stretched + broken * 1e-3;
      if (broken > kBroken || ++age == kOldest) begin();
    }
    return sum;
  }
};

// ---- waveforms ----
//
// Expected first: streams (which some call prefetch). A laser on a plane hears each pulse come
// back, and kernels find what it met on its way. 32 MiB go up for a block, 4 MiB come down, both of
// pinned memory and asynchronous; but the host waits for a block, and files it, before it starts
// the next one.

constexpr int kPulses = 1 << 16, kSamples = 256, kEchoes = 4, kBlocks = 8, kHeard = 4;
constexpr int kFits = 10, kOfLane = kSamples / kWarp, kHeights = 512;

struct Echo {
  float at, width, height, energy;
};

__device__ inline float warp_sum(float own) {
  for (int by = kWarp / 2; by > 0; by /= 2) own += __shfl_xor_sync(kAll, own, by);
  return own;
}

// Finds the echoes that each pulse is made of: a mixture of bells, by expectations; a warp a pulse.
__global__ void decompose(const uint16_t* waves, Echo* echoes) {
  const int pulse = (blockIdx.x * kThreads + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  const uint16_t* own = waves + static_cast<size_t>(pulse) * kSamples + lane * kOfLane;
  float values[kOfLane];
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) values[i] = fmaxf(own[i] - 24.0f, 0.01f);
  float at[kEchoes], width[kEchoes], height[kEchoes], energy[kEchoes];
#pragma unroll
  for (int k = 0; k < kEchoes; ++k) at[k] = 32 + 64 * k, width[k] = 20, height[k] = 1;
  for (int fit = 0; fit < kFits; ++fit) {
    float sums[kEchoes] = {}, places[kEchoes] = {}, squares[kEchoes] = {};
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      float parts[kEchoes], all = 1e-20f;
#pragma unroll
      for (int k = 0; k < kEchoes; ++k) {
        const float off = (lane * kOfLane + i - at[k]) / width[k];
        all += parts[k] = height[k] * __expf(-0.5f * off * off);
      }
#pragma unroll
      for (int k = 0; k < kEchoes; ++k) {
        const float part = values[i] * parts[k] / all, off = lane * kOfLane + i - at[k];
        sums[k] += part, places[k] += part * off, squares[k] += part * off * off;
      }
    }
#pragma unroll
    for (int k = 0; k < kEchoes; ++k) {
      energy[k] = fmaxf(warp_sum(sums[k]), 1e-6f);
      const float moved = warp_sum(places[k]) / energy[k];
      const float spread = warp_sum(squares[k]) / energy[k] - moved * moved;
      at[k] += moved;
      width[k] = sqrtf(fmaxf(spread, 1));
      height[k] = energy[k] / width[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kEchoes; ++k)
    if (lane == k) echoes[pulse * kEchoes + k] = {at[k], width[k], height[k], energy[k]};
}

struct Waveforms {
  static constexpr size_t kWaves = static_cast<size_t>(kPulses) * kSamples;
  struct Place {
    uint16_t* waves = above<uint16_t>(kWaves);
    Echo* echoes = below<Echo>(true, kPulses* kEchoes);
    Echo* echoes_above = above<Echo>(kPulses * kEchoes);
    cudaStream_t stream = new_stream();
  };
  std::vector<Place> places;
  std::array<uint16_t*, kHeard> heard{};  // where the laser puts what it hears, in turn
  std::vector<int> heights = std::vector<int>(kHeights);
  int block = 0;

  explicit Waveforms(bool two) : places(two ? 2 : 1) {
    Random random{5};
    std::array<uint16_t, 64> bell{};
    for (int i = 0; i < 64; ++i)
      bell[i] = static_cast<uint16_t>(180 * std::exp(-0.5 * (i - 32) * (i - 32) / 36.0));
    for (uint16_t*& waves : heard) {
      waves = below<uint16_t>(true, kWaves);
      for (int pulse = 0; pulse < kPulses; ++pulse) listen(random, bell, waves + pulse * kSamples);
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Puts down a pulse that came back from some things.
  static void listen(Random& random, const std::array<uint16_t, 64>& bell, uint16_t* wave) {
    for (int i = 0; i < kSamples; i += 8) {
      const uint32_t bits = random.next();
      for (int j = 0; j < 8; ++j) wave[i + j] = static_cast<uint16_t>(16 + (bits >> 4 * j) % 16);
    }
    for (int echo = 1 + random.below(kEchoes); echo > 0; --echo) {
      uint16_t* begin = wave + random.below(kSamples - 64);
      for (int i = 0; i < 64; ++i) begin[i] = static_cast<uint16_t>(begin[i] + bell[i] * echo / 2);
    }
  }

  // Launches all that a block needs.
  void start(int number) {
    const Place& place = places[number % places.size()];
    uint16_t* waves = heard[number % kHeard];
    waves[0] = static_cast<uint16_t>(number);  // by the laser, which counts them
    CHECK(cudaMemcpyAsync(place.waves, waves, kWaves * sizeof(waves[0]), cudaMemcpyHostToDevice,
                          place.stream));
    decompose<<<kPulses * kWarp / kThreads, kThreads, 0, place.stream>>>(place.waves,
                                                                         place.echoes_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(place.echoes, place.echoes_above, kPulses * kEchoes * sizeof(Echo),
                          cudaMemcpyDeviceToHost, place.stream));
  }

  // Files the last clear echo of each pulse, once they are there, which is the ground.
  double file(int number) {
    const Place& place = places[number % places.size()];
    CHECK(cudaStreamSynchronize(place.stream));
    std::fill(heights.begin(), heights.end(), 0);
    double energy = 0;
    for (int pulse = 0; pulse < kPulses; ++pulse) {
      const Echo* own = place.echoes + pulse * kEchoes;
      float ground = 0;
      for (int k = 0; k < kEchoes; ++k)
        if (own[k].energy > 300) ground = std::max(ground, own[k].at);
      ++heights[std::min(std::max(static_cast<int>(2 * ground), 0), kHeights - 1)];
      energy += own[0].energy;
    }
    double sum = 1e-3 * energy;
    for (int i = 0; i < kHeights; ++i) sum += static_cast<double>(i) * heights[i];
    return sum;
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kBlocks; ++i, ++block) {
      start(block);
      if (places.size() == 1)
        sum += file(block);
      else if (i > 0)  // the last block, while this one is under way
        sum += file(block - 1);
    }
    if (places.size() > 1) sum += file(block - 1);
    return sum;
  }
};

// ---- phylo ----
//
// Expected: no advice. Both copies are pageable and waited for, and the host needs the answer to
// go on; but they take some microseconds, and kernels between them more than a millisecond.

constexpr int kSites = 1 << 20, kInner = 47, kTips = kInner + 1, kRates = 4, kBases = 4;
constexpr int kOfMatrix = kRates * kBases * kBases, kProposals = 16, kSumBlocks = 1024;

// What lies below a branch: either what is known of a living thing, or what was found of an
// ancestor, of each site and rate.
struct Child {
  const uint8_t* tip;
  const float4* partial;
  const float* matrix;  // by rate, how likely a base (row) becomes another one on the branch
};

// Returns how likely what is below a branch is, by the base above it.
__device__ inline float4 below_branch(const Child& child, const float* matrix, int place) {
  float4 given = make_float4(0, 0, 0, 0);
  if (child.tip != nullptr) {
    const int base = child.tip[place / kRates];
    given = make_float4(base == 0, base == 1, base == 2, base == 3);
  } else {
    given = child.partial[place];
  }
  const float* own = matrix + place % kRates * kBases * kBases;
  const auto row = [&](int base) {
    const float* of = own + base * kBases;
    return of[0] * given.x + of[1] * given.y + of[2] * given.z + of[3] * given.w;
  };
  return make_float4(row(0), row(1), row(2), row(3));
}

// Finds how likely all below an ancestor is, twice for each, so that it stays a float; a thread
// for each site and rate.
__global__ void ancestor(Child left, Child right, float4* partial) {
  __shared__ float matrices[2][kOfMatrix];
  if (threadIdx.x < 2 * kOfMatrix)
    matrices[threadIdx.x / kOfMatrix][threadIdx.x % kOfMatrix] =
        (threadIdx.x < kOfMatrix ? left : right).matrix[threadIdx.x % kOfMatrix];
  __syncthreads();
  const int place = blockIdx.x * kThreads + threadIdx.x;
  const float4 one = below_branch(left, matrices[0], place);
  const float4 two = below_branch(right, matrices[1], place);
  partial[place] =
      make_float4(2 * one.x * two.x, 2 * one.y * two.y, 2 * one.z * two.z, 2 * one.w * two.w);
}

__device__ double block_sum(double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int by = kThreads / 2; by > 0; by /= 2) {
    if (threadIdx.x < by) sums[threadIdx.x] += sums[threadIdx.x + by];
    __syncthreads();
  }
  return sums[0];
}

// Adds up how likely sites are, by logarithms.
__global__ void sum_sites(const float4* root, double* parts) {
  double sum = 0;
  for (int site = blockIdx.x * kThreads + threadIdx.x; site < kSites;
       site += kSumBlocks * kThreads) {
    float likely = 0;
    for (int rate = 0; rate < kRates; ++rate) {
      const float4 own = root[site * kRates + rate];
      likely += own.x + own.y + own.z + own.w;
    }
    sum += logf(fmaxf(likely / (kRates * kBases), 1e-37f)) - kInner * 0.69314718;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void sum_parts(const double* parts, double* sum) {
  double own = 0;
  for (int i = threadIdx.x; i < kSumBlocks; i += kThreads) own += parts[i];
  own = block_sum(own);
  if (threadIdx.x == 0) *sum = own;
}

struct Phylo {
  // Of each ancestor and branch what counts and what was proposed, in either place.
  std::array<std::array<float4*, 2>, kInner> partials{};
  std::array<int, kInner> of_partials{};
  std::array<std::array<float*, 2>, 2 * kInner> matrices{};
  std::array<int, 2 * kInner> of_matrices{};
  std::array<double, 2 * kInner> lengths{};
  std::array<uint8_t*, kTips> tips{};
  double *parts = above<double>(kSumBlocks), *sum_above = above<double>(1), *sum;
  float* matrix;
  double likely = 0;
  Random random{6};

  explicit Phylo(bool pinned) : sum(below<double>(pinned, 1)), matrix(below<float>(pinned, 64)) {
    static_assert(kOfMatrix == 64);
    for (auto& one : partials)
      for (float4*& place : one) place = above<float4>(static_cast<size_t>(kSites) * kRates);
    for (int branch = 0; branch < 2 * kInner; ++branch) {
      for (float*& place : matrices[branch]) place = above<float>(kOfMatrix);
      lengths[branch] = random.between(0.05f, 0.3f);
      send_matrix(branch);
    }
    std::vector<uint8_t> bases(kSites), own(kSites);
    for (uint8_t& base : bases) base = static_cast<uint8_t>(random.below(kBases));
    for (uint8_t*& tip : tips) {
      for (int i = 0; i < kSites; ++i) {
        const uint32_t bits = random.next();
        own[i] = bits % 16 < 13 ? bases[i] : static_cast<uint8_t>(bits / 16 % kBases);
      }
      tip = above(own);
    }
    likely = evaluate(0);
  }

  // Finds how likely bases change on a branch, and sends it to the place that counts.
  void send_matrix(int branch) {
    constexpr std::array<double, kRates> kSpeeds = {0.1, 0.4, 0.9, 2.6};
    for (int rate = 0; rate < kRates; ++rate) {
      const double decay = std::exp(-4.0 / 3 * kSpeeds[rate] * lengths[branch]);
      for (int i = 0; i < kBases * kBases; ++i)
        matrix[rate * kBases * kBases + i] =
            static_cast<float>(0.25 + (i % (kBases + 1) == 0 ? 0.75 : -0.25) * decay);
    }
    CHECK(cudaMemcpy(matrices[branch][of_matrices[branch]], matrix, kOfMatrix * sizeof(float),
                     cudaMemcpyHostToDevice));
  }

  float* matrix_of(int branch) const { return matrices[branch][of_matrices[branch]]; }
  float4* partial_of(int node) const { return partials[node][of_partials[node]]; }

  // Returns how likely the tree is, by a logarithm, once all from an ancestor on is found anew.
  double evaluate(int first) {
    for (int node = first; node < kInner; ++node) {
      const Child left = {node == 0 ? tips[0] : nullptr, node == 0 ? nullptr : partial_of(node - 1),
                          matrix_of(2 * node)};
      const Child right = {tips[node + 1], nullptr, matrix_of(2 * node + 1)};
      ancestor<<<kSites * kRates / kThreads, kThreads>>>(left, right, partial_of(node));
    }
    sum_sites<<<kSumBlocks, kThreads>>>(partial_of(kInner - 1), parts);
    sum_parts<<<1, kThreads>>>(parts, sum_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum, sum_above, sizeof(double), cudaMemcpyDeviceToHost));
    return *sum;
  }

  // Lets what was proposed count from a branch on, or what counted before.
  void flip(int branch) {
    of_matrices[branch] ^= 1;
    for (int node = branch / 2; node < kInner; ++node) of_partials[node] ^= 1;
  }

  // Proposes another length of a branch; returns whether the tree has it from now on.
  bool propose() {
    const int branch = random.below(2 * kInner);
    const double old = lengths[branch], by = std::exp(random.between(-0.05f, 0.05f));
    lengths[branch] = std::min(std::max(old * by, 1e-3), 2.0);
    flip(branch);
    send_matrix(branch);
    const double found = evaluate(branch / 2);
    const double draw = std::log(random.between(1e-6f, 1.0f));
    const bool better = found - likely > draw;
    if (better) {
      likely = found;
    } else {
      lengths[branch] = old;
      flip(branch);
    }
    return better;
  }

  double run() {
    int taken = 0;
    for (int i = 0; i < kProposals; ++i) taken += propose() ? 1 : 0;
    double sum_of = 1e-3 * likely + taken;
    for (const double length : lengths) sum_of += length;
    return sum_of;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(
      argc, argv,
      {named<Merkle>("merkle"), named<Quotes>("quotes"), named<Wafer>("wafer"),
       named<Fracture>("fracture"), named<Waveforms>("waveforms"), named<Phylo>("phylo")});
}
