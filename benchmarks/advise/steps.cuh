// What the CUDA C++ programs of the closed loop have in common: memory, streams and events, random
// numbers, and steps that are timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../cuda_check.cuh"

// Steps before those that are timed.
constexpr int kWarming = 5;
constexpr size_t kMiB = 1 << 20;

inline float* host(bool pinned, size_t bytes) {
  void* found = nullptr;
  if (pinned)
    CHECK(cudaMallocHost(&found, bytes));
  else
    found = std::malloc(bytes);
  std::memset(found, 0, bytes);
  return static_cast<float*>(found);
}

// Memory of the GPU, filled with zeros.
template <class T>
T* above(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

// The same, filled with values.
template <class T>
T* above(const std::vector<T>& values) {
  T* found = above<T>(values.size());
  CHECK(cudaMemcpy(found, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return found;
}

// Memory of the host, filled with zeros.
template <class T>
T* below(bool pinned, size_t count) {
  return reinterpret_cast<T*>(host(pinned, count * sizeof(T)));
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

inline cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// Numbers that look random, by shifts and a product.
class Random {
 public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u) {}

  uint32_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>((state * 0x2545f4914f6cdd1du) >> 32);
  }

  int below(int limit) { return static_cast<int>(next() % static_cast<uint32_t>(limit)); }

  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 8) / 16777216.0f;
  }

 private:
  uint64_t state;
};

// Runs kWarming steps and those to time; prints their median and the checksum of the last.
template <class Step>
int time_steps(const char* name, bool after, int steps, const Step& run) {
  std::vector<double> seconds;
  double checksum = 0;
  for (int step = 0; step < steps + kWarming; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    checksum = run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (step >= kWarming) seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%s %s: %.6f s a step, checksum %.6g\n", name, after ? "after" : "before",
              seconds[seconds.size() / 2], checksum);
  return 0;
}

// A program of a set; `make` returns a step of its form.
struct Named {
  const char* name;
  std::function<std::function<double()>(bool after)> make;
};

// A program whose steps are its `run`.
template <class Program>
Named named(const char* name) {
  return {name, [](bool after) -> std::function<double()> {
            const auto program = std::make_shared<Program>(after);
            return [program] { return program->run(); };
          }};
}

// Runs the program that the command line names: `SET NAME before|after [STEPS]`.
inline int run_named(int argc, char** argv, const std::vector<Named>& set) {
  const bool after = argc > 2 && !std::strcmp(argv[2], "after");
  const int steps = argc > 3 ? std::atoi(argv[3]) : 40;
  std::string names;
  for (const Named& one : set) {
    if (argc > 1 && !std::strcmp(argv[1], one.name))
      return time_steps(one.name, after, steps, one.make(after));
    names += (names.empty() ? "" : "|") + std::string(one.name);
  }
  std::fprintf(stderr, "give %s before|after [STEPS]\n", names.c_str());
  return 2;
}
