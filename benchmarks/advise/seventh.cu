// Three CUDA C++ programs for the closed loop of advise, the seventh set; see seventh.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o seventh benchmarks/advise/seventh.cu
//     seventh paths|cipher|scan before|after [STEPS]
//
// paths: options are priced by random paths, each scenario's six parameters copied one by one
// before its kernel; after: one copy of all scenarios. cipher: chunks of pageable memory are
// encrypted, the result is in pageable memory, too; after: both are pinned. scan: pinned chunks
// go by two streams with a buffer each to a kernel that is shorter than the copy, and the link is
// always busy: nothing is to be gained; after: four streams.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256;

template <class T>
T* on_device(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

__host__ __device__ inline uint32_t mixed(uint32_t value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

// ---- paths ----

constexpr int kScenarios = 600, kDays = 24, kPathBlocks = 256;

struct Scenario {
  float spot, strike, rate, volatility;
  uint32_t seed;
  float dividends[kDays];  // paid on each day, as a part of the price
};

// Adds up what an option on the mean price pays over all paths, in thousandths.
__global__ void price(const Scenario* given, unsigned long long* payoff) {
  __shared__ Scenario scenario;
  if (threadIdx.x == 0) scenario = *given;
  __syncthreads();
  const float day = 1.0f / kDays, shake = scenario.volatility * sqrtf(day);
  const float drift = (scenario.rate - 0.5f * scenario.volatility * scenario.volatility) * day;
  uint32_t state = mixed(blockIdx.x * kThreads + threadIdx.x) ^ scenario.seed;
  float now = scenario.spot, sum = 0;
  for (int i = 0; i < kDays; ++i) {
    state = mixed(state + 0x9e3779b9u);
    const float first = ((state >> 8) + 1) * (1.0f / (1 << 24));
    state = mixed(state + 0x9e3779b9u);
    const float second = (state >> 8) * (1.0f / (1 << 24));
    const float normal = sqrtf(-2 * logf(first)) * cospif(2 * second);
    now *= expf(drift + shake * normal) * (1 - scenario.dividends[i]);
    sum += now;
  }
  const float gain = fmaxf(sum * day - scenario.strike, 0.0f);
  unsigned paid = static_cast<unsigned>(fminf(gain, 10000.0f) * 1000);
  for (int step = 16; step > 0; step /= 2) paid += __shfl_down_sync(~0u, paid, step);
  if (threadIdx.x % 32 == 0) atomicAdd(payoff, static_cast<unsigned long long>(paid));
}

struct Paths {
  std::vector<Scenario> scenarios{kScenarios};
  Scenario* given = on_device<Scenario>(kScenarios);
  unsigned long long* payoffs = on_device<unsigned long long>(kScenarios);
  bool together;
  uint32_t number = 0;

  explicit Paths(bool together) : together(together) {}

  // The scenarios of a day, which differ from those of the day before.
  void draw() {
    ++number;
    for (uint32_t n = 0; n < kScenarios; ++n) {
      Scenario& one = scenarios[n];
      one.spot = 100.0f + n % 7;
      one.strike = 90.0f + n % 23;
      one.rate = 0.01f + 0.001f * (n % 31);
      one.volatility = 0.1f + 0.01f * (n % 19);
      one.seed = mixed(number * kScenarios + n);
      for (int i = 0; i < kDays; ++i) one.dividends[i] = i % 12 == 5 ? 0.001f * (n % 9) : 0;
    }
  }

  template <class T>
  static void set(T* to, const T& from) {
    CHECK(cudaMemcpy(to, &from, sizeof(T), cudaMemcpyHostToDevice));
  }

  static void set_each(Scenario* to, const Scenario& from) {
    set(&to->spot, from.spot);
    set(&to->strike, from.strike);
    set(&to->rate, from.rate);
    set(&to->volatility, from.volatility);
    set(&to->seed, from.seed);
    set(&to->dividends, from.dividends);
  }

  // Returns the sum of what the options of all scenarios pay.
  double run() {
    draw();
    CHECK(cudaMemset(payoffs, 0, kScenarios * sizeof *payoffs));
    const size_t bytes = kScenarios * sizeof(Scenario);
    if (together) CHECK(cudaMemcpy(given, scenarios.data(), bytes, cudaMemcpyHostToDevice));
    for (int n = 0; n < kScenarios; ++n) {
      if (!together) set_each(given, scenarios[n]);
      price<<<kPathBlocks, kThreads>>>(together ? given + n : given, payoffs + n);
    }
    CHECK(cudaGetLastError());
    std::vector<unsigned long long> found(kScenarios);
    const size_t found_bytes = kScenarios * sizeof *payoffs;
    CHECK(cudaMemcpy(found.data(), payoffs, found_bytes, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const unsigned long long one : found) sum += static_cast<double>(one);
    return sum / (1000.0 * kPathBlocks * kThreads);
  }
};

// ---- cipher ----

constexpr int kPieces = 8, kRounds = 32;
constexpr size_t kPieceBytes = 16 << 20, kPieceWords = kPieceBytes / sizeof(uint32_t);
constexpr size_t kPairs = kPieceWords / 2;

struct Key {
  uint32_t words[4];
};

// XTEA in counter mode: a thread makes 8 bytes of key stream of its counter.
__global__ void encrypt(uint2* text, Key key, uint32_t nonce) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  uint32_t a = i, b = nonce, sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    a += (((b << 4) ^ (b >> 5)) + b) ^ (sum + key.words[sum & 3]);
    sum += 0x9e3779b9u;
    b += (((a << 4) ^ (a >> 5)) + a) ^ (sum + key.words[(sum >> 11) & 3]);
  }
  const uint2 one = text[i];
  text[i] = make_uint2(one.x ^ a, one.y ^ b);
}

struct Cipher {
  static constexpr size_t kBytes = kPieces * kPieceBytes;
  uint32_t *plain, *secret, *text = on_device<uint32_t>(kPieceWords);
  uint32_t nonce = 0;

  explicit Cipher(bool pinned)
      : plain(reinterpret_cast<uint32_t*>(host(pinned, kBytes))),
        secret(reinterpret_cast<uint32_t*>(host(pinned, kBytes))) {
    for (size_t i = 0; i < kBytes / sizeof(uint32_t); ++i) plain[i] = mixed(i);
    std::memset(secret, 0, kBytes);
  }

  // Returns the sum of some words of all that is encrypted.
  double run() {
    const Key key{{0x01234567u, 0x89abcdefu, 0x76543210u, 0xfedcba98u}};
    for (int piece = 0; piece < kPieces; ++piece) {
      const size_t first = piece * kPieceWords;
      CHECK(cudaMemcpy(text, plain + first, kPieceBytes, cudaMemcpyHostToDevice));
      encrypt<<<kPairs / kThreads, kThreads>>>(reinterpret_cast<uint2*>(text), key, ++nonce);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(secret + first, text, kPieceBytes, cudaMemcpyDeviceToHost));
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < kPieces * kPieceWords; i += 1021) sum += secret[i] >> 8;
    return static_cast<double>(sum);
  }
};

// ---- scan ----

constexpr int kChunks = 16, kScanBlocks = 1024;
constexpr size_t kChunkBytes = 64 << 20, kChunkWords = kChunkBytes / sizeof(uint32_t);

// Counts the words whose hash is small.
__global__ void count_small(const uint4* words, unsigned* count) {
  unsigned mine = 0;
  const unsigned first = blockIdx.x * kThreads + threadIdx.x;
  for (unsigned i = first; i < kChunkWords / 4; i += kScanBlocks * kThreads) {
    const uint4 four = words[i];
    mine += (mixed(four.x) < 1u << 24) + (mixed(four.y) < 1u << 24);
    mine += (mixed(four.z) < 1u << 24) + (mixed(four.w) < 1u << 24);
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(count, mine);
}

struct Scan {
  struct Slot {
    cudaStream_t stream;
    uint32_t* words;
  };
  uint32_t* log;
  std::vector<Slot> slots;
  unsigned* count = on_device<unsigned>(1);
  uint32_t number = 0;

  explicit Scan(int streams)
      : log(reinterpret_cast<uint32_t*>(host(true, kChunks * kChunkBytes))), slots(streams) {
    for (size_t i = 0; i < kChunks * kChunkWords; ++i)
      log[i] = static_cast<uint32_t>(i) * 2654435761u;
    for (Slot& slot : slots) {
      CHECK(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking));
      slot.words = on_device<uint32_t>(kChunkWords);
    }
    CHECK(cudaDeviceSynchronize());  // what clears memory is on another stream
  }

  // Returns how many words of all chunks have a small hash.
  double run() {
    ++number;
    for (size_t i = 0; i < kChunks * kChunkWords; i += 65536) log[i] = mixed(number + i);
    CHECK(cudaMemset(count, 0, sizeof *count));
    CHECK(cudaDeviceSynchronize());
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const Slot& slot = slots[chunk % slots.size()];
      CHECK(cudaMemcpyAsync(slot.words, log + chunk * kChunkWords, kChunkBytes,
                            cudaMemcpyHostToDevice, slot.stream));
      count_small<<<kScanBlocks, kThreads, 0, slot.stream>>>(
          reinterpret_cast<const uint4*>(slot.words), count);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    unsigned found = 0;
    CHECK(cudaMemcpy(&found, count, sizeof found, cudaMemcpyDeviceToHost));
    return found;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Paths>("paths"),
                    named<Cipher>("cipher"),
                    {"scan", [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Scan>(after ? 4 : 2);
                       return [program] { return program->run(); };
                     }}});
}
