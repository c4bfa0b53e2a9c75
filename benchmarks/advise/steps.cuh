// What the CUDA C++ programs of the closed loop have in common: host memory, and steps that are
// timed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cuda_check.cuh"

// Steps before those that are timed.
constexpr int kWarming = 5;

inline float* host(bool pinned, size_t bytes) {
  void* found = nullptr;
  if (pinned)
    CHECK(cudaMallocHost(&found, bytes));
  else
    found = std::malloc(bytes);
  std::memset(found, 0, bytes);
  return static_cast<float*>(found);
}

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
