// Five CUDA C++ programs for the closed loop of advise, the ninth set; see ninth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o ninth benchmarks/advise/ninth.cu
//     ninth desk|fuzzy|tracers|radar|docking before|after [STEPS]
//
// desk: sound of 16 channels lies interleaved in pinned memory, and each channel goes to the GPU
// and back by a copy of 8192 rows of four bytes; after: all by one copy, and kernels sort them.
// fuzzy: parts of a table of names go from pinned memory to the GPU, which looks for two names, and
// the host waits for the number of finds before it sends the next part; after: the next part is
// sent meanwhile, on a stream of its own. tracers: what drifts in a flow is copied to pageable
// memory eight times a step, but the host reads the last copy only; after: that one is made only.
// radar: chunks take turns on two streams, but each chunk's weights go by a plain cudaMemcpy, which
// waits for both of them; after: from pinned memory, on the chunk's stream. docking: poses go up
// and their energies come back for the host to breed the next ones, and a kernel takes nearly all
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

// Numbers that look random, from a linear congruence whose high bits are used.
class Random {
 public:
  explicit Random(uint64_t seed) : state(seed) { next(); }

  uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);  // below 2^31
  }

  uint32_t below(uint32_t limit) { return next() % limit; }

  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(next()) / 2147483648.0f;
  }

 private:
  uint64_t state;
};

// ---- desk ----

constexpr int kChannels = 16, kBlock = 8192, kTaps = 1 << 16, kRing = 2 * kTaps, kRecorded = 4;
constexpr size_t kBlockValues = static_cast<size_t>(kChannels) * kBlock;

// Each channel as it sounds in a hall: the sum of what came before, as the hall throws it back.
__global__ void echo(const float* ring, const float* hall, int first, float* wet) {
  const int sample = blockIdx.x * kThreads + threadIdx.x, channel = blockIdx.y;
  const float* sound = ring + static_cast<size_t>(channel) * kRing;
  float sum = 0;
#pragma unroll 8
  for (int tap = 0; tap < kTaps; ++tap)
    sum += hall[tap] * sound[(first + sample - tap) & (kRing - 1)];
  wet[static_cast<size_t>(channel) * kBlock + sample] = sum;
}

// Puts interleaved sound where each channel's goes on.
__global__ void part(const float* mixed, int first, float* ring) {
  const int place = blockIdx.x * kThreads + threadIdx.x;
  const int sample = place / kChannels, channel = place % kChannels;
  ring[static_cast<size_t>(channel) * kRing + first + sample] = mixed[place];
}

__global__ void interleave(const float* wet, float* mixed) {
  const int place = blockIdx.x * kThreads + threadIdx.x;
  const int sample = place / kChannels, channel = place % kChannels;
  mixed[place] = wet[static_cast<size_t>(channel) * kBlock + sample];
}

struct Desk {
  float* ring = above<float>(static_cast<size_t>(kChannels) * kRing);
  float* wet = above<float>(kBlockValues);
  float* mixed = above<float>(kBlockValues);
  float* hall = nullptr;
  float* recorded = below<float>(true, kRecorded* kBlockValues);
  float* played = below<float>(true, kBlockValues);
  cudaStream_t stream = new_stream();
  bool at_once;
  int number = 0;

  explicit Desk(bool at_once) : at_once(at_once) {
    Random random(1);
    std::vector<float> echoes(kTaps);
    for (int tap = 0; tap < kTaps; ++tap)
      echoes[tap] = random.between(-1, 1) * std::exp(-8.0f * static_cast<float>(tap) / kTaps) / 64;
    hall = above(echoes);
    for (size_t i = 0; i < kRecorded * kBlockValues; ++i) recorded[i] = random.between(-1, 1);
    CHECK(cudaDeviceSynchronize());
  }

  void send(const float* sound, int first) {
    if (at_once) {
      CHECK(cudaMemcpyAsync(mixed, sound, kBlockValues * sizeof(float), cudaMemcpyHostToDevice,
                            stream));
      part<<<kBlockValues / kThreads, kThreads, 0, stream>>>(mixed, first, ring);
      CHECK(cudaGetLastError());
      return;
    }
    for (int channel = 0; channel < kChannels; ++channel)
      CHECK(cudaMemcpy2DAsync(ring + static_cast<size_t>(channel) * kRing + first, sizeof(float),
                              sound + channel, kChannels * sizeof(float), sizeof(float), kBlock,
                              cudaMemcpyHostToDevice, stream));
  }

  void get() {
    if (at_once) {
      interleave<<<kBlockValues / kThreads, kThreads, 0, stream>>>(wet, mixed);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(played, mixed, kBlockValues * sizeof(float), cudaMemcpyDeviceToHost,
                            stream));
      return;
    }
    for (int channel = 0; channel < kChannels; ++channel)
      CHECK(cudaMemcpy2DAsync(played + channel, kChannels * sizeof(float),
                              wet + static_cast<size_t>(channel) * kBlock, sizeof(float),
                              sizeof(float), kBlock, cudaMemcpyDeviceToHost, stream));
  }

  // Returns how loud some samples of a block are.
  double run() {
    const int first = number * kBlock % kRing;
    send(recorded + (number % kRecorded) * kBlockValues, first);
    echo<<<dim3(kBlock / kThreads, kChannels), kThreads, 0, stream>>>(ring, hall, first, wet);
    CHECK(cudaGetLastError());
    get();
    CHECK(cudaStreamSynchronize(stream));
    ++number;
    double sum = 0;
    for (size_t i = 0; i < kBlockValues; i += 7) sum += std::fabs(played[i]);
    return sum;
  }
};

// ---- fuzzy ----

constexpr int kParts = 8, kRows = 1 << 21, kLetters = 16, kWanted = 2, kPeople = 64;
constexpr int kMostWrong = 2, kMostFound = 1 << 18;

struct alignas(16) Name {
  std::array<uint32_t, kLetters / 4> words;  // four letters each
};

struct Wanted {
  uint8_t letters[kWanted][kLetters];
};

// Returns how many letters are to be changed, left out or put in to get from a name to another.
__device__ inline int edits(const uint32_t (&words)[kLetters / 4], const uint8_t* other) {
  int row[kLetters + 1];
#pragma unroll
  for (int j = 0; j <= kLetters; ++j) row[j] = j;
#pragma unroll
  for (int i = 0; i < kLetters; ++i) {
    const uint32_t letter = words[i / 4] >> (8 * (i % 4)) & 0xff;
    int diagonal = row[0];
    row[0] = i + 1;
#pragma unroll
    for (int j = 0; j < kLetters; ++j) {
      const int up = row[j + 1];
      row[j + 1] = min(min(up, row[j]) + 1, diagonal + (letter != other[j]));
      diagonal = up;
    }
  }
  return row[kLetters];
}

// Writes the rows whose names are close to one that is wanted, in any order.
__global__ void look(const uint4* names, Wanted wanted, int* found, int* count) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const uint4 name = names[row];
  const uint32_t words[kLetters / 4] = {name.x, name.y, name.z, name.w};
  bool close = false;
#pragma unroll 1
  for (int one = 0; one < kWanted; ++one) close |= edits(words, wanted.letters[one]) <= kMostWrong;
  if (!close) return;
  const int place = atomicAdd(count, 1);
  if (place < kMostFound) found[place] = row;
}

struct Fuzzy {
  struct Place {
    uint4* names = above<uint4>(kRows);
    cudaEvent_t sent = new_event();
  };
  Name* table = below<Name>(true, static_cast<size_t>(kParts) * kRows);
  int* rows = below<int>(true, kMostFound);
  int* count = below<int>(true, 1);
  int* rows_above = above<int>(kMostFound);
  int* count_above = above<int>(1);
  std::array<std::array<uint8_t, kLetters>, kPeople> people{};
  std::array<Place, 2> places;
  cudaStream_t kernels = new_stream(), copies = kernels;
  bool ahead;
  uint32_t number = 0;

  explicit Fuzzy(bool ahead) : ahead(ahead) {
    if (ahead) copies = new_stream();
    Random random(2);
    for (auto& person : people)
      for (uint8_t& letter : person) letter = static_cast<uint8_t>('a' + random.below(26));
    for (size_t row = 0; row < static_cast<size_t>(kParts) * kRows; ++row) {
      auto name = people[random.below(kPeople)];  // with up to five letters mistyped
      for (uint32_t wrong = random.below(6); wrong > 0; --wrong)
        name[random.below(kLetters)] = static_cast<uint8_t>('a' + wrong);
      std::memcpy(&table[row], name.data(), kLetters);
    }
    CHECK(cudaDeviceSynchronize());
  }

  // Sends a part to the place of the one two before, in which the host knows the finds.
  void send(int number_of_part) {
    const Place& place = places[number_of_part % places.size()];
    const Name* names = table + static_cast<size_t>(number_of_part) * kRows;
    CHECK(
        cudaMemcpyAsync(place.names, names, kRows * sizeof(Name), cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(place.sent, copies));
  }

  void look_in(int number_of_part, const Wanted& wanted) {
    const Place& place = places[number_of_part % places.size()];
    CHECK(cudaStreamWaitEvent(kernels, place.sent, 0));
    CHECK(cudaMemsetAsync(count_above, 0, sizeof(int), kernels));
    look<<<kRows / kThreads, kThreads, 0, kernels>>>(place.names, wanted, rows_above, count_above);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(count, count_above, sizeof(int), cudaMemcpyDeviceToHost, kernels));
  }

  // Waits for the finds in the part looked in last, and returns the sum of their rows.
  double finds() {
    CHECK(cudaStreamSynchronize(kernels));
    const int found = std::min(*count, kMostFound);
    CHECK(cudaMemcpyAsync(rows, rows_above, found * sizeof(int), cudaMemcpyDeviceToHost, kernels));
    CHECK(cudaStreamSynchronize(kernels));
    int64_t sum = 0;
    for (int i = 0; i < found; ++i) sum += rows[i];
    return static_cast<double>(sum);
  }

  double run() {
    Wanted wanted{};
    for (uint32_t one = 0; one < kWanted; ++one)
      std::memcpy(wanted.letters[one], people[(kWanted * number + one) % kPeople].data(), kLetters);
    ++number;
    double sum = 0;
    if (ahead) send(0);
    for (int i = 0; i < kParts; ++i) {
      if (!ahead) send(i);
      look_in(i, wanted);
      if (ahead && i + 1 < kParts) send(i + 1);
      sum += finds();
    }
    return sum;
  }
};

// ---- tracers ----

constexpr int kTracers = 1 << 20, kSaves = 8, kMoves = 48;

__device__ inline float3 moved(float3 at, float by, float3 flow) {
  return make_float3(at.x + by * flow.x, at.y + by * flow.y, at.z + by * flow.z);
}

// The flow of Arnold, Beltrami and Childress, whose strengths change with time.
__device__ inline float3 flow_at(float3 at, float time) {
  float sine_x, cosine_x, sine_y, cosine_y, sine_z, cosine_z;
  sincospif(at.x, &sine_x, &cosine_x);
  sincospif(at.y, &sine_y, &cosine_y);
  sincospif(at.z, &sine_z, &cosine_z);
  const float a = 1.7f + 0.1f * time, b = 1.4f, c = 1;
  return make_float3(a * sine_z + c * cosine_y, b * sine_x + a * cosine_z,
                     c * sine_y + b * cosine_x);
}

// Moves each tracer by steps of the method of Heun, in a box of side 2 whose walls meet.
__global__ void drift(float4* tracers, float time) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float by = 1e-3f;
  const float4 tracer = tracers[i];
  float3 at = make_float3(tracer.x, tracer.y, tracer.z);
  float far = tracer.w;
  for (int move = 0; move < kMoves; ++move) {
    const float3 here = flow_at(at, time);
    const float3 there = flow_at(moved(at, by, here), time);
    at = moved(moved(at, by / 2, here), by / 2, there);
    far += by * sqrtf(here.x * here.x + here.y * here.y + here.z * here.z);
  }
  at = make_float3(at.x - 2 * floorf(at.x / 2), at.y - 2 * floorf(at.y / 2),
                   at.z - 2 * floorf(at.z / 2));
  tracers[i] = make_float4(at.x, at.y, at.z, far);
}

struct Tracers {
  float4* tracers = nullptr;
  std::vector<float4> saved = std::vector<float4>(kTracers);
  bool when_due;
  int number = 0;

  explicit Tracers(bool when_due) : when_due(when_due) {
    Random random(3);
    for (float4& one : saved)
      one = {random.between(0, 2), random.between(0, 2), random.between(0, 2), 0};
    tracers = above(saved);
  }

  // Writes the tracers out where that is due; returns how far some of them have come.
  double save(bool due) {
    if (when_due && !due) return 0;
    const size_t bytes = kTracers * sizeof(float4);
    CHECK(cudaMemcpy(saved.data(), tracers, bytes, cudaMemcpyDeviceToHost));
    if (!due) return 0;
    double sum = 0;
    for (int i = 0; i < kTracers; i += 16) sum += saved[i].x + saved[i].w;
    return sum;
  }

  double run() {
    double sum = 0;
    for (int i = 1; i <= kSaves; ++i) {
      drift<<<kTracers / kThreads, kThreads>>>(tracers, 1e-3f * static_cast<float>(number++ % 999));
      CHECK(cudaGetLastError());
      sum += save(i % kSaves == 0);
    }
    return sum;
  }
};

// ---- radar ----

constexpr int kAntennas = 64, kBeams = 160, kTimes = 1 << 17, kChunks = 8;
constexpr int kSummed = 16, kBeamsAtOnce = 8;  // times that make one value of power; of a thread
constexpr size_t kChunkSamples = static_cast<size_t>(kAntennas) * kTimes;
constexpr size_t kChunkBytes = kChunkSamples * sizeof(short2);
constexpr size_t kWeights = static_cast<size_t>(kBeams) * kAntennas;
constexpr size_t kPowers = static_cast<size_t>(kBeams) * (kTimes / kSummed);

// Finds the power that comes from the directions of some beams, of each time's 64 samples.
__global__ void listen(const short2* samples, const float2* weights, float* powers) {
  __shared__ float2 of_beams[kAntennas][kBeamsAtOnce];
  const int time = blockIdx.x * kThreads + threadIdx.x, first = blockIdx.y * kBeamsAtOnce;
  for (int i = threadIdx.x; i < kAntennas * kBeamsAtOnce; i += kThreads) {
    const int antenna = i / kBeamsAtOnce, beam = i % kBeamsAtOnce;
    of_beams[antenna][beam] = weights[(first + beam) * kAntennas + antenna];
  }
  __syncthreads();
  float real[kBeamsAtOnce] = {}, imaginary[kBeamsAtOnce] = {};
  for (int antenna = 0; antenna < kAntennas; ++antenna) {
    const short2 sample = samples[static_cast<size_t>(antenna) * kTimes + time];
    const float a = sample.x, b = sample.y;
#pragma unroll
    for (int beam = 0; beam < kBeamsAtOnce; ++beam) {
      const float2 weight = of_beams[antenna][beam];
      real[beam] += weight.x * a - weight.y * b;
      imaginary[beam] += weight.x * b + weight.y * a;
    }
  }
#pragma unroll
  for (int beam = 0; beam < kBeamsAtOnce; ++beam) {
    float power = real[beam] * real[beam] + imaginary[beam] * imaginary[beam];
    for (int away = kSummed / 2; away > 0; away /= 2)
      power += __shfl_xor_sync(0xffffffff, power, away);
    if (threadIdx.x % kSummed == 0)
      powers[static_cast<size_t>(first + beam) * (kTimes / kSummed) + time / kSummed] = power;
  }
}

// Writes the weights of beams that fan out to both sides of a direction.
void steer(float middle, float2* weights) {
  for (int beam = 0; beam < kBeams; ++beam) {
    const float turn = 3.14159265f * (middle + (beam - 0.5f * kBeams) / kBeams);
    const float2 by = {std::cos(turn), std::sin(turn)};
    float2 weight = {1.0f / kAntennas, 0};
    for (int antenna = 0; antenna < kAntennas; ++antenna) {
      weights[beam * kAntennas + antenna] = weight;
      weight = {weight.x * by.x - weight.y * by.y, weight.x * by.y + weight.y * by.x};
    }
  }
}

struct Radar {
  struct Lane {
    short2* samples = above<short2>(kChunkSamples);
    float2* weights = above<float2>(kWeights);
    float* powers = above<float>(kPowers);
    cudaStream_t stream = nullptr;
    Lane() { CHECK(cudaStreamCreate(&stream)); }
  };
  std::array<Lane, 2> lanes;
  short2* samples = below<short2>(true, kChunks* kChunkSamples);
  float* powers = below<float>(true, kChunks* kPowers);
  float2* weights = nullptr;  // of one chunk, or of each
  bool on_lane;
  int number = 0;

  explicit Radar(bool on_lane) : on_lane(on_lane) {
    weights = below<float2>(on_lane, (on_lane ? kChunks : 1) * kWeights);
    Random random(4);
    for (size_t i = 0; i < kChunks * kChunkSamples; ++i) {
      const uint32_t noise = random.next();
      samples[i].x = static_cast<int16_t>(static_cast<int>(noise & 0x3ff) - 512);
      samples[i].y = static_cast<int16_t>(static_cast<int>(noise >> 10 & 0x3ff) - 512);
    }
  }

  void listen_to(int chunk) {
    const Lane& lane = lanes[chunk % lanes.size()];
    float2* steered = weights + (on_lane ? chunk * kWeights : 0);
    steer(0.001f * static_cast<float>(number++), steered);
    const size_t bytes = kWeights * sizeof(float2);
    if (on_lane)
      CHECK(cudaMemcpyAsync(lane.weights, steered, bytes, cudaMemcpyHostToDevice, lane.stream));
    else
      CHECK(cudaMemcpy(lane.weights, steered, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(lane.samples, samples + chunk * kChunkSamples, kChunkBytes,
                          cudaMemcpyHostToDevice, lane.stream));
    listen<<<dim3(kTimes / kThreads, kBeams / kBeamsAtOnce), kThreads, 0, lane.stream>>>(
        lane.samples, lane.weights, lane.powers);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(powers + chunk * kPowers, lane.powers, kPowers * sizeof(float),
                          cudaMemcpyDeviceToHost, lane.stream));
  }

  // Returns the sum of some powers of all chunks.
  double run() {
    for (int chunk = 0; chunk < kChunks; ++chunk) listen_to(chunk);
    for (const Lane& lane : lanes) CHECK(cudaStreamSynchronize(lane.stream));
    double sum = 0;
    for (size_t i = 0; i < kChunks * kPowers; i += 1021) sum += powers[i];
    return sum;
  }
};

// ---- docking ----

constexpr int kPoses = 8192, kLigand = 32, kProtein = 24576, kTile = 1024, kGenerations = 3;
static_assert(kLigand == 32, "a warp has one atom a thread");

struct Pose {
  float4 turn, place;  // a quaternion of length one; where the middle is, and nothing
};

__device__ inline float3 cross(float4 a, float3 b) {
  return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

__device__ inline float4 atom_in(const Pose& pose, float4 atom) {
  const float4 turn = pose.turn;
  const float3 once = cross(turn, make_float3(atom.x, atom.y, atom.z));
  const float3 twice = cross(turn, once);
  return make_float4(atom.x + 2 * (turn.w * once.x + twice.x) + pose.place.x,
                     atom.y + 2 * (turn.w * once.y + twice.y) + pose.place.y,
                     atom.z + 2 * (turn.w * once.z + twice.z) + pose.place.z, atom.w);
}

// Finds the energy of each pose, between all atoms of the ligand and of the protein.
__global__ void score(const Pose* poses, const float4* ligand, const float4* protein,
                      float* energies) {
  __shared__ float4 tile[kTile];
  const int pose = (blockIdx.x * kThreads + threadIdx.x) / kLigand, lane = threadIdx.x % kLigand;
  const float4 atom = atom_in(poses[pose], ligand[lane]);
  float energy = 0;
  for (int first = 0; first < kProtein; first += kTile) {
    for (int i = threadIdx.x; i < kTile; i += kThreads) tile[i] = protein[first + i];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < kTile; ++i) {
      const float4 other = tile[i];
      const float x = atom.x - other.x, y = atom.y - other.y, z = atom.z - other.z;
      const float near = rsqrtf(x * x + y * y + z * z + 1);
      const float square = 4 * near * near, sixth = square * square * square;
      energy += sixth * sixth - sixth + atom.w * other.w * near;
    }
    __syncthreads();
  }
  for (int away = kLigand / 2; away > 0; away /= 2)
    energy += __shfl_xor_sync(0xffffffff, energy, away);
  if (lane == 0) energies[pose] = energy;
}

struct Docking {
  float4 *ligand = nullptr, *protein = nullptr;
  Pose* poses_above = above<Pose>(kPoses);
  float* energies_above = above<float>(kPoses);
  Pose* poses = nullptr;
  float* energies = nullptr;
  std::vector<Pose> parents = std::vector<Pose>(kPoses);
  Random random{5};

  explicit Docking(bool pinned) {
    ligand = above(atoms(kLigand, 4));
    protein = above(atoms(kProtein, 40));
    poses = below<Pose>(pinned, kPoses);
    energies = below<float>(pinned, kPoses);
    for (int i = 0; i < kPoses; ++i) {
      poses[i].turn = {random.between(-1, 1), random.between(-1, 1), random.between(-1, 1), 1};
      poses[i].place = {random.between(-40, 40), random.between(-40, 40), random.between(-40, 40),
                        0};
      set_length(poses[i].turn);
    }
  }

  std::vector<float4> atoms(int count, float within) {
    std::vector<float4> found(count);
    for (float4& atom : found)
      atom = {random.between(-within, within), random.between(-within, within),
              random.between(-within, within), random.between(-1, 1)};
    return found;
  }

  static void set_length(float4& turn) {
    const float square =
        turn.x * turn.x + turn.y * turn.y + turn.z * turn.z + turn.w * turn.w + 1e-6f;
    const float by = 1 / std::sqrt(square);
    turn = {by * turn.x, by * turn.y, by * turn.z, by * turn.w};
  }

  // Replaces each pose by one between two that are better than others, and changes it a little.
  void breed() {
    std::copy(poses, poses + kPoses, parents.begin());
    const auto winner = [&]() -> const Pose& {
      const uint32_t a = random.below(kPoses), b = random.below(kPoses);
      return parents[energies[a] < energies[b] ? a : b];
    };
    for (int i = 0; i < kPoses; ++i) {
      const Pose &one = winner(), &other = winner();
      const float share = random.between(0, 1), by = 0.05f;
      const auto mix = [&](float a, float b) {
        return a + share * (b - a) + random.between(-by, by);
      };
      poses[i].turn = {mix(one.turn.x, other.turn.x), mix(one.turn.y, other.turn.y),
                       mix(one.turn.z, other.turn.z), mix(one.turn.w, other.turn.w)};
      set_length(poses[i].turn);
      poses[i].place = {mix(one.place.x, other.place.x), mix(one.place.y, other.place.y),
                        mix(one.place.z, other.place.z), 0};
    }
  }

  // Returns the least energy of some generations.
  double run() {
    float least = INFINITY;
    for (int generation = 0; generation < kGenerations; ++generation) {
      CHECK(cudaMemcpy(poses_above, poses, kPoses * sizeof(Pose), cudaMemcpyHostToDevice));
      score<<<kPoses * kLigand / kThreads, kThreads>>>(poses_above, ligand, protein,
                                                       energies_above);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(energies, energies_above, kPoses * sizeof(float), cudaMemcpyDeviceToHost));
      least = std::min(least, *std::min_element(energies, energies + kPoses));
      breed();
    }
    return least;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Desk>("desk"), named<Fuzzy>("fuzzy"), named<Tracers>("tracers"),
                    named<Radar>("radar"), named<Docking>("docking")});
}
