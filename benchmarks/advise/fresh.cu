// Two CUDA C++ programs for the closed loop of advise, the fifth set; see fresh.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o fresh benchmarks/advise/fresh.cu
//     fresh columns|signal before|after [STEPS]
//
// columns: a table of 240 columns of three types, as a reader of CSV leaves them, uploaded column
// by column, each then reduced to its sum, least and most; after: gathered in one pinned buffer,
// one copy. signal: eight chunks of samples of a radio in pinned memory, each copied, filtered and
// decimated, and copied back, on one stream; after: on three streams.

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
T* cleared(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

// ---- columns ----

constexpr int kColumns = 240, kRows = 4096, kTables = 4;

enum Type { kCode, kCount, kAmount, kTypes };

constexpr size_t size_of(int type) {
  return type == kCode ? sizeof(uint8_t) : type == kCount ? sizeof(int32_t) : sizeof(double);
}

struct Column {
  size_t offset;  // in the table on the GPU
  int type;
};

struct Summary {
  double sum, least, most;
};

__device__ double value_of(const char* table, const Column& column, int row) {
  const char* values = table + column.offset;
  if (column.type == kCode) return reinterpret_cast<const uint8_t*>(values)[row];
  if (column.type == kCount) return reinterpret_cast<const int32_t*>(values)[row];
  return reinterpret_cast<const double*>(values)[row];
}

// A block a column.
__global__ void summarise(const char* table, const Column* columns, Summary* summaries) {
  __shared__ Summary parts[kThreads];
  const Column column = columns[blockIdx.x];
  const double first = value_of(table, column, threadIdx.x);
  Summary mine{first, first, first};
  for (int row = threadIdx.x + kThreads; row < kRows; row += kThreads) {
    const double value = value_of(table, column, row);
    mine.sum += value;
    mine.least = fmin(mine.least, value);
    mine.most = fmax(mine.most, value);
  }
  parts[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const Summary other = parts[threadIdx.x + half];
    Summary& both = parts[threadIdx.x];
    both.sum += other.sum;
    both.least = fmin(both.least, other.least);
    both.most = fmax(both.most, other.most);
  }
  if (threadIdx.x == 0) summaries[blockIdx.x] = parts[0];
}

struct Columns {
  using Table = std::vector<std::vector<char>>;

  std::vector<Table> tables{kTables};
  std::vector<Column> places{kColumns};
  std::vector<Summary> found{kColumns};
  size_t bytes = 0;
  char *gathered = nullptr, *table;
  Column* columns = cleared<Column>(kColumns);
  Summary* summaries = cleared<Summary>(kColumns);
  int number = 0;

  explicit Columns(bool gather) {
    for (int n = 0; n < kColumns; ++n) {
      places[n] = {bytes, n % kTypes};
      bytes += kRows * size_of(n % kTypes);
    }
    for (Table& one : tables) {
      const int salt = static_cast<int>(&one - tables.data());
      for (const Column& column : places) one.push_back(filled(column, salt));
    }
    if (gather) gathered = reinterpret_cast<char*>(host(true, bytes));
    table = cleared<char>(bytes);
    CHECK(cudaMemcpy(columns, places.data(), kColumns * sizeof(Column), cudaMemcpyHostToDevice));
  }

  static std::vector<char> filled(const Column& column, int salt) {
    std::vector<char> values(kRows * size_of(column.type));
    for (int row = 0; row < kRows; ++row) {
      const int32_t count = static_cast<int>((row * 37 + column.offset + salt * 101) % 1009);
      const uint8_t code = static_cast<uint8_t>(count % 100);
      const double amount = count * 0.25;
      const void* value = &amount;
      if (column.type == kCode) value = &code;
      if (column.type == kCount) value = &count;
      std::memcpy(values.data() + row * size_of(column.type), value, size_of(column.type));
    }
    return values;
  }

  // Returns the sum of the summaries of the columns of one table.
  double summarised() {
    const Table& given = tables[number++ % kTables];
    for (int n = 0; n < kColumns; ++n) {
      const size_t at = places[n].offset;
      if (gathered)
        std::memcpy(gathered + at, given[n].data(), given[n].size());
      else
        CHECK(cudaMemcpy(table + at, given[n].data(), given[n].size(), cudaMemcpyHostToDevice));
    }
    if (gathered) CHECK(cudaMemcpy(table, gathered, bytes, cudaMemcpyHostToDevice));
    summarise<<<kColumns, kThreads>>>(table, columns, summaries);
    CHECK(cudaGetLastError());
    const size_t size = kColumns * sizeof(Summary);
    CHECK(cudaMemcpy(found.data(), summaries, size, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const Summary& one : found) sum += one.sum + one.least + one.most;
    return sum;
  }
};

// ---- signal ----

constexpr int kChunks = 8, kSamples = 4 << 20, kTaps = 256, kDecimation = 8;
constexpr int kOutputs = kSamples / kDecimation;

__constant__ float taps[kTaps];

// Of complex samples of 16 bits; the first output needs the kTaps samples from the first on.
__global__ void decimate(const short2* in, float2* out) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const short2* from = in + static_cast<size_t>(i) * kDecimation;
  float2 sum{0, 0};
  for (int k = 0; k < kTaps; ++k) {
    sum.x += taps[k] * from[k].x;
    sum.y += taps[k] * from[k].y;
  }
  out[i] = sum;
}

struct Signal {
  struct Lane {
    cudaStream_t stream;
    short2* in = cleared<short2>(kSamples + kTaps);
    float2* out = cleared<float2>(kOutputs);
  };
  short2* samples;  // of all chunks, then kTaps more, which the last one needs
  float2* filtered;
  std::vector<Lane> lanes;

  explicit Signal(int streams) : lanes(streams) {
    const size_t count = static_cast<size_t>(kChunks) * kSamples + kTaps;
    samples = reinterpret_cast<short2*>(host(true, count * sizeof(short2)));
    for (size_t i = 0; i < count; ++i) {
      samples[i].x = static_cast<short>(i * 7 % 2003);
      samples[i].y = static_cast<short>(i * 11 % 1999);
    }
    const size_t outputs = static_cast<size_t>(kChunks) * kOutputs;
    filtered = reinterpret_cast<float2*>(host(true, outputs * sizeof(float2)));
    std::vector<float> window(kTaps);
    for (int k = 0; k < kTaps; ++k) window[k] = static_cast<float>(k < 128 ? k : 255 - k) / 16384;
    CHECK(cudaMemcpyToSymbol(taps, window.data(), sizeof taps));
    for (Lane& lane : lanes) CHECK(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());  // what clears memory is on another stream
  }

  // Returns the sum of some of the filtered samples of all chunks.
  double filter() const {
    const size_t in = (kSamples + kTaps) * sizeof(short2), out = kOutputs * sizeof(float2);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const Lane& lane = lanes[chunk % lanes.size()];
      const short2* from = samples + static_cast<size_t>(chunk) * kSamples;
      float2* to = filtered + static_cast<size_t>(chunk) * kOutputs;
      CHECK(cudaMemcpyAsync(lane.in, from, in, cudaMemcpyHostToDevice, lane.stream));
      decimate<<<kOutputs / kThreads, kThreads, 0, lane.stream>>>(lane.in, lane.out);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(to, lane.out, out, cudaMemcpyDeviceToHost, lane.stream));
    }
    for (const Lane& lane : lanes) CHECK(cudaStreamSynchronize(lane.stream));
    double sum = 0;
    for (size_t i = 0; i < static_cast<size_t>(kChunks) * kOutputs; i += 4093)
      sum += filtered[i].x + filtered[i].y;
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {{"columns",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Columns>(after);
                       return [program] { return program->summarised(); };
                     }},
                    {"signal", [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Signal>(after ? 3 : 1);
                       return [program] { return program->filter(); };
                     }}});
}
