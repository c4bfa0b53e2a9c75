// Programs of other sets, changed as the first advice says to the letter, in CUDA C++; the others
// are in literal.py, which tells how the forms `after` were written.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o literal benchmarks/advise/literal.cu
//     literal kmers-literal|circuit-literal|ledger-literal before|after [STEPS]
//
// kmers-literal: pin + prefetch; after: the reads of a file in pinned memory, and those of the next
// batch sent while this one is classified. circuit-literal: keep + pin; after: the matrix stays on
// the GPU, what else is copied is in pinned memory. ledger-literal: pin + async; after: columns of
// all groups of a step in pinned memory, their calls asynchronous, and one wait.
#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

// Each set has its own kThreads and main: what they include is above, so that it is included once.
namespace eleventh {
#include "eleventh.cu"
}
namespace fourteenth {
#include "fourteenth.cu"
}
namespace sixteenth {
#include "sixteenth.cu"
}

// ---- kmers ----

namespace eleventh {
namespace {

// The advice counts three buffers of a round; the reads lie in a file's memory, which is pinned as
// a whole where it was taken by malloc. Kernels stay in the default stream.
struct LiteralKmers : Kmers {
  std::array<char*, 2> buffers = {reads_above, above<char>(kBatchBytes)};
  cudaStream_t ahead = new_stream(), stream = nullptr;
  std::array<cudaEvent_t, 2> ready = {new_event(), new_event()}, used = {new_event(), new_event()};
  int number = 0;

  LiteralKmers() : Kmers(true) {
    CHECK(cudaDeviceSynchronize());
    fetch(0);
  }

  // Sends the batch that comes after the one sent last.
  void fetch(int to) {
    const char* reads = file + static_cast<size_t>(at) * kLength;
    CHECK(cudaMemcpyAsync(buffers[to], reads, kBatchBytes, cudaMemcpyDefault, ahead));
    CHECK(cudaEventRecord(ready[to], ahead));
    at = (at + kReads + 41) % (kFileReads - kReads);
  }

  double run() {
    double sum = 0;
    for (int batch = 0; batch < kBatches; ++batch, ++number) {
      const int now = number % 2, next = 1 - now;
      CHECK(cudaStreamWaitEvent(stream, ready[now], 0));
      classify<<<kReads * kWarp / kThreads, kThreads, 0, stream>>>(buffers[now], known,
                                                                   found_above);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(used[now], stream));
      CHECK(cudaStreamWaitEvent(ahead, used[next], 0));  // kernels of the round before
      fetch(next);
      CHECK(cudaMemcpy(found, found_above, kReads * sizeof(int), cudaMemcpyDeviceToHost));
      for (int read = 0; read < kReads; ++read) sum += found[read] * (1 + read % 3);
    }
    return sum;
  }
};

}  // namespace
}  // namespace eleventh

// ---- circuit ----

namespace fourteenth {
namespace {

struct LiteralCircuit : Circuit {
  // In pinned memory, in place of the vectors of these names.
  double *more = below<double>(true, kNodes), *right = below<double>(true, kNodes);
  double* volts = below<double>(true, kNodes);
  bool changed = true;  // the matrix, which the host writes but once

  LiteralCircuit() : Circuit(false) {}

  static void send_nodes(double* to, const double* from) {
    CHECK(cudaMemcpy(to, from, kNodes * sizeof(double), cudaMemcpyHostToDevice));
  }

  // Finds the voltages of all nodes.
  void solve() {
    if (changed) {
      send(offsets_above, offsets);
      send(columns_above, columns);
      send(values_above, values);
      changed = false;
    }
    send_nodes(more_above, more);
    send_nodes(right_above, right);
    const Matrix matrix = {offsets_above, columns_above, values_above, more_above};
    begin<<<kNodeBlocks, kThreads>>>(matrix, right_above, gradients);
    for (int turn = 0; turn < kIterations; ++turn) {
      multiply<<<kNodeBlocks, kThreads>>>(matrix, gradients);
      go<<<kNodeBlocks, kThreads>>>(gradients, turn);
      bend<<<kNodeBlocks, kThreads>>>(gradients, turn);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(volts, gradients.solution, kNodes * sizeof(double), cudaMemcpyDeviceToHost));
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

  // Takes the circuit on by a moment; returns how often it was solved.
  int live() {
    ++time;
    for (int i = 0; i < kNodes; ++i) right[i] = kStored * volts[i];
    for (int i = 0; i < kNodes; i += 64)
      right[i] += 20 + 15 * std::sin(0.05 * time + 0.001 * (i % 4096));
    const std::vector<double> fixed(right, right + kNodes);
    double moved = 1;
    int tries = 0;
    while (tries < kMostTries && moved > 1e-5) {
      linearize(fixed);
      old.assign(volts, volts + kNodes);
      solve();
      ++tries;
      moved = 0;
      for (const int node : diodes) moved = std::max(moved, std::fabs(volts[node] - old[node]));
    }
    return tries;
  }

  double run() {
    double sum = 0;
    for (int i = 0; i < kMoments; ++i) sum += live();
    for (int i = 0; i < kNodes; i += 7) sum += volts[i];
    return sum;
  }
};

}  // namespace
}  // namespace fourteenth

// ---- ledger ----

namespace sixteenth {
namespace {

struct LiteralLedger : Ledger {
  // Columns of each group of a step: the host decodes one while those before it are on their way.
  std::array<std::array<int*, kFields>, kGroups> columns{};
  cudaStream_t stream = new_stream();

  LiteralLedger() : Ledger(false) {
    for (auto& group_columns : columns)
      for (int*& column : group_columns) column = below<int>(true, kEntries);
  }

  double run() {
    for (int i = 0; i < kGroups; ++i, ++group) {
      fields = columns[i];
      decode();
      for (int field = 0; field < kFields; ++field)
        CHECK(cudaMemcpyAsync(fields_above + field * kEntries, fields[field],
                              kEntries * sizeof(int), cudaMemcpyDefault, stream));
      post<<<kEntries / kThreads, kThreads, 0, stream>>>(fields_above, totals_above);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpyAsync(totals, totals_above, kAccounts * sizeof(totals[0]),
                          cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));  // once a step, before totals are read
    double sum = 0;
    for (int i = 0; i < kAccounts; ++i) sum += static_cast<double>(totals[i] % 1000003);
    return sum;
  }
};

}  // namespace
}  // namespace sixteenth

namespace {

template <class Program>
std::function<double()> steps_of(std::shared_ptr<Program> program) {
  return [program] { return program->run(); };
}

// A program whose form `before` is that of another set.
template <class Before, class After>
Named either(const char* name) {
  return {name, [](bool after) {
            return after ? steps_of(std::make_shared<After>())
                         : steps_of(std::make_shared<Before>(false));
          }};
}

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {either<eleventh::Kmers, eleventh::LiteralKmers>("kmers-literal"),
                    either<fourteenth::Circuit, fourteenth::LiteralCircuit>("circuit-literal"),
                    either<sixteenth::Ledger, sixteenth::LiteralLedger>("ledger-literal")});
}
