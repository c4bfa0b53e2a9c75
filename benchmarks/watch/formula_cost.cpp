// What the values of samples cost by `SampleFormula`, without a GPU, of made-up samples as CUPTI's
// lie in memory: of one link, and of a GPU with 18 NVLinks, whose samples hold a counter of 16 to
// 32 bits for each link and direction, idle at first. Processor time; what CUPTI takes is not in
// it.
/*
    g++ -O3 -std=c++20 -Inative/src benchmarks/watch/formula_cost.cpp \
        native/src/watch/{sample_formula,elimination,bit_sum}.cpp -o formula_cost && ./formula_cost
*/
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>
#include <vector>

#include "watch/sample_formula.hpp"

namespace {

using lanescope::watch::SampleFormula;

constexpr std::size_t kBlock = 32;  // bytes of a sample for each counter
constexpr std::size_t kMetrics = 4;

struct Counter {
  std::size_t metric;  // kMetrics: none
  unsigned bits;       // that it uses at most
  double factor;
};

/// Makes samples, one every `interval_ns`.
class Sampled {
 public:
  Sampled(std::vector<Counter> counters, std::uint64_t interval_ns)
      : counters_(std::move(counters)), interval_ns_(interval_ns) {
    for (std::size_t i = 0; i < counters_.size(); ++i) keys_.push_back(random_());
  }

  std::size_t bytes() const { return 9 + kBlock * counters_.size() + 16; }

  void make(bool busy, std::uint8_t* sample, std::array<double, kMetrics>& values) {
    ++number_;
    values = {};
    std::memset(sample, 0, bytes());
    std::memcpy(sample + 4, &number_, sizeof number_);
    // A direction is busy or not, and its links are about as busy as each other.
    std::array<double, kMetrics + 1> shares{};
    for (double& share : shares) share = busy && random_() % 3 != 0 ? uniform() : 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      const Counter& counter = counters_[i];
      const double most = static_cast<double>((std::uint64_t{1} << counter.bits) - 1);
      const double drawn = shares[counter.metric] * most * (0.9 + 0.1 * uniform());
      const auto count = static_cast<std::uint64_t>(drawn);
      const std::uint64_t stored = count ^ keys_[i];
      std::memcpy(sample + 9 + kBlock * i, &stored, sizeof stored);
      if (counter.metric < kMetrics)
        values[counter.metric] += counter.factor * static_cast<double>(count);
    }
    const std::uint64_t begin = 1'700'000'000'000'000'000 + interval_ns_ * number_ / 32 * 32;
    const std::uint64_t end = begin + interval_ns_ / 32 * 32;
    std::memcpy(sample + bytes() - 16, &begin, sizeof begin);
    std::memcpy(sample + bytes() - 8, &end, sizeof end);
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::vector<Counter> counters_;
  std::uint64_t interval_ns_;
  std::vector<std::uint64_t> keys_;  // bits of counters that are inverted
  std::uint32_t number_ = 0;
  std::mt19937_64 random_{1};
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run(const char* name, Sampled sampled, int idle, int busy) {
  constexpr int kPart = 5'000;
  SampleFormula formula(sampled.bytes(), kMetrics);
  std::vector<std::uint8_t> samples(kPart * sampled.bytes());
  std::vector<std::array<double, kMetrics>> values(kPart);
  double learning = 0, last = 0;
  int learned = 0, asked = 0, last_asked = 0;
  for (int done = 0; done < idle + busy; done += kPart) {
    for (int i = 0; i < kPart; ++i)
      sampled.make(done >= idle, &samples[static_cast<std::size_t>(i) * sampled.bytes()],
                   values[static_cast<std::size_t>(i)]);
    last_asked = 0;
    const double begun = processor_seconds();
    for (int i = 0; i < kPart; ++i) {
      if (formula.find(&samples[static_cast<std::size_t>(i) * sampled.bytes()]) != nullptr)
        continue;
      const double begins = processor_seconds();
      const auto was = formula.learn(values[static_cast<std::size_t>(i)]);
      if (was == SampleFormula::Learned::progress) {
        learning += processor_seconds() - begins;
        ++learned;
      }
      ++last_asked;
    }
    last = processor_seconds() - begun;
    asked += last_asked;
  }
  const auto report = formula.report();
  std::printf(
      "%s: %zu bytes, %llu bits that change, %llu samples learned, %s\n"
      "  %d of %d samples went to CUPTI, %d of them to learn, which took %.1f ms\n"
      "  the last %d samples: %.1f ns each, %d went to CUPTI\n",
      name, sampled.bytes(), static_cast<unsigned long long>(report.columns),
      static_cast<unsigned long long>(report.rows), report.state.c_str(), asked, idle + busy,
      learned, 1e3 * learning, kPart, 1e9 * last / kPart, last_asked);
}

std::vector<Counter> counters(std::size_t links, unsigned fewest_bits, unsigned most_bits) {
  std::vector<Counter> made{{0, 14, 1}, {1, 14, 1}};  // PCIe
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i < links; ++i)
    for (const std::size_t metric : {2, 3})
      made.push_back({metric,
                      fewest_bits + static_cast<unsigned>(random() % (most_bits - fewest_bits + 1)),
                      metric == 2 ? 32.0 : 16.0});
  if (links > 0) made.push_back({kMetrics, 20, 0});  // counted, and of no metric
  return made;
}

}  // namespace

int main() {
  run("PCIe", Sampled(counters(0, 1, 1), 2'016), 50'000, 350'000);
  run("18 NVLinks, 11 bits", Sampled(counters(18, 11, 11), 2'016), 50'000, 350'000);
  run("18 NVLinks, 16 to 24 bits", Sampled(counters(18, 16, 24), 2'016), 50'000, 350'000);
  run("36 NVLinks, 11 to 16 bits", Sampled(counters(36, 11, 16), 2'016), 50'000, 350'000);
}
