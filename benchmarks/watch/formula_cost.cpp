// What the values of a sample cost by `SampleFormula`: made-up samples of four links in use, as
// CUPTI's lie in memory, nanoseconds each. Without a GPU:
//
//   g++ -O2 -std=c++20 -Inative/src benchmarks/watch/formula_cost.cpp \
//       native/src/watch/sample_formula.cpp -o formula_cost && ./formula_cost
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "watch/sample_formula.hpp"

int main() {
  constexpr int kSamples = 400'000, kTurns = 7;
  constexpr std::size_t kLinks = 4, kBytes = 8 + 11 * kLinks + 16;
  constexpr std::uint64_t kKey = 0xCEF0'734E'B842'0A19;  // bits of counters that are inverted
  constexpr std::array<double, kLinks> kMeans{9, 40, 800, 25'000};
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<std::uint8_t> samples(kSamples * kBytes);
  std::vector<std::array<double, kLinks>> values(kSamples);
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    std::uint8_t* sample = &samples[i * kBytes];
    std::memcpy(sample + 4, &i, sizeof i);
    for (std::size_t link = 0; link < kLinks; ++link) {
      const double drawn = kMeans[link] * (1 + normal(random) / 3);
      const auto count = 32 * static_cast<std::uint64_t>(std::max(drawn, 0.0));
      const std::uint64_t stored = count ^ kKey;
      std::memcpy(sample + 11 + 11 * link, &stored, sizeof stored);
      values[i][link] = static_cast<double>(count);
    }
    const std::uint64_t begin = 1'700'000'000'000'000'000 + 2016ULL * i, end = begin + 2016;
    std::memcpy(sample + kBytes - 16, &begin, sizeof begin);
    std::memcpy(sample + kBytes - 8, &end, sizeof end);
  }
  lanescope::watch::SampleFormula formula(kBytes, kLinks);
  for (int turn = 0; turn < kTurns; ++turn) {
    int evaluated = 0;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kSamples; ++i) {
      if (formula.find(&samples[static_cast<std::size_t>(i) * kBytes]) != nullptr) continue;
      formula.learn(values[static_cast<std::size_t>(i)]);
      ++evaluated;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    std::printf("%.1f ns, %d of %d evaluated\n", took.count() / kSamples, evaluated, kSamples);
  }
}
