// Checks those parts of native/src/host that each kind of CPU has code of its own for, or that its
// order of memory accesses might break: cache flushes, stores, arithmetic, single loads, threads
// that meet. Prints what this CPU has.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "chase_ring.hpp"
#include "error.hpp"
#include "host/cache_flush.hpp"
#include "host/host_kernels.hpp"
#include "host/pages.hpp"
#include "host/parallel.hpp"
#include "host/rendezvous.hpp"
#include "host/single_loads.hpp"
#include "pattern.hpp"

namespace lanescope {
namespace {

constexpr std::uint64_t kSeed = 7;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

struct alignas(64) Line {
  double numbers[8];
};

void flushed_bytes_stay() {
  require(can_flush_caches(), "the caches of this CPU can be flushed");
  constexpr std::size_t kBytes = 1 << 16;
  std::vector<std::uint64_t> words(kBytes / 8);
  fill_pattern(words.data(), kBytes, kSeed);
  const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
  for (std::size_t first : {0, 1, 63, 64, 1000})
    for (std::size_t size : {1, 64, 65, 4096}) flush_from_caches(bytes + first, size);
  flush_from_caches(bytes, kBytes);
  finish_flushes();
  require(count_mismatches(words.data(), kBytes, kSeed) == 0, "what was flushed is still there");
}

/// Rounded after each of its steps: a volatile number is no part of a fused operation.
double rounded_twice(Operation operation, double b, double c) {
  if (!reads_two(operation)) return result_of(operation, b, c);
  const volatile double scaled = operation == Operation::triad ? kScalar * c : c;
  return b + scaled;
}

/// Numbers with all bits of a double, so that each step rounds.
void operations_round_as_elsewhere(Stores stores) {
  constexpr std::size_t kCount = 1003;
  std::vector<Line> a(kCount / 8 + 1), b(a.size()), c(a.size());
  double* each[] = {a[0].numbers, b[0].numbers, c[0].numbers};
  for (std::size_t i = 0; i < kCount; ++i) {
    each[1][i] = 1.0 / static_cast<double>(i + 3);
    each[2][i] = 1.0 / static_cast<double>(2 * i + 7);
  }
  for (const auto operation :
       {Operation::copy, Operation::scale, Operation::add, Operation::triad}) {
    run_kernel(operation, stores, each[0], each[1], each[2], kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      require(each[0][i] == rounded_twice(operation, each[1][i], each[2][i]),
              "an operation's results are those of other CPUs");
  }
}

void streaming_stores_are_there_or_refused() {
  if (has_streaming_stores()) return operations_round_as_elsewhere(Stores::streaming);
#if !defined(__x86_64__)
  try {
    operations_round_as_elsewhere(Stores::streaming);
  } catch (const Error& error) {
    return require(error.name() == "no streaming stores", "the error names what there is not");
  }
  require(false, "streaming stores are refused where there are none");
#endif
}

void loads_find_what_was_written() {
  const LoadPlaces places = places_in(1 << 16, 128, 512);
  auto words = std::make_unique<std::uint64_t[]>(places.span() / 8);
  const auto base = reinterpret_cast<std::uint64_t>(words.get());
  const auto visits = ring_visits({places, ChaseOrder::random});
  write_ring(words.get(), base, places, visits);
  require(chase_loads(base + places.offset(visits[0]), 100) == base + places.offset(visits[100]),
          "a chase comes to the place that its ring says");
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < places.count; ++i)
    sum += words[places.offset(i) / 8] = pattern_word(kSeed, i);
  require(gather_loads(words.get(), places) == sum, "a gather reads each place once");
}

/// What one thread wrote before it came, another sees after they have met.
void threads_meet() {
  constexpr int kThreads = 3, kRounds = 5000;
  Rendezvous rendezvous;
  rendezvous.reset(kThreads);
  long written[kThreads] = {};
  std::mutex mutex;
  long wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int self = 0; self < kThreads; ++self)
      threads.emplace_back([&, self] {
        long missed = 0;
        for (int round = 0; round < kRounds; round += 2) {
          written[self] = round;
          rendezvous.meet(round, [] { return true; });
          for (const long one : written) missed += one != round;
          rendezvous.meet(round + 1, [] { return true; });
        }
        const std::lock_guard lock(mutex);
        wrong += missed;
      });
  }
  require(wrong == 0, "threads that met see what the others wrote before");
}

void pages_are_counted() {
  const std::vector<std::byte> touched(1 << 20, std::byte{1});
  const NodePages pages = node_pages(touched.data(), touched.size());
  std::size_t known = 0;
  for (const auto& [node, count] : pages.by_node) known += count;
  require(known + pages.unknown > 0, "there are pages");
  std::vector<long> parts(1000);
  in_parallel(parts.size(), 10, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) parts[i] = static_cast<long>(i);
  });
  require(std::accumulate(parts.begin(), parts.end(), 0L) == 999 * 500, "all parts are done");
}

}  // namespace
}  // namespace lanescope

int main() {
  using namespace lanescope;
  flushed_bytes_stay();
  operations_round_as_elsewhere(Stores::cached);
  streaming_stores_are_there_or_refused();
  loads_find_what_was_written();
  threads_meet();
  pages_are_counted();
  std::printf("streaming stores: %s\nall is as it should be\n",
              has_streaming_stores() ? "yes" : "none");
}
