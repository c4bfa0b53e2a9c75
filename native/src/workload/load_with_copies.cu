#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "pattern.hpp"
#include "workload/steps.hpp"

namespace lanescope {

namespace {

constexpr unsigned kLoadThreads = 1024;
constexpr std::uint32_t kFactor = 1664525U, kSummand = 1013904223U;
/// Long enough to be timed well, short enough to be nothing beside the steps.
constexpr std::uint64_t kTrialRounds = 1U << 17;

/// Computes without touching memory: each thread draws so many numbers of a generator.
__global__ void compute(std::uint32_t* results, std::uint64_t rounds) {
  const std::uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t x = me;
#pragma unroll 16
  for (std::uint64_t i = 0; i < rounds; ++i) x = x * kFactor + kSummand;
  results[me] = x;
}

/// x -> factor * x + summand, modulo 2^32.
struct Affine {
  std::uint32_t factor, summand;
};

Affine then(const Affine& first, const Affine& second) {
  return {second.factor * first.factor, second.factor * first.summand + second.summand};
}

/// So many rounds of the kernel at once, by repeated squaring.
Affine rounds_at_once(std::uint64_t rounds) {
  Affine all{1, 0}, power{kFactor, kSummand};
  for (; rounds != 0; rounds >>= 1) {
    if (rounds & 1) all = then(all, power);
    power = then(power, power);
  }
  return all;
}

/// A kernel on some of a device's SMs, each of which has one block to itself.
class Load {
 public:
  Load(int device, double share) : stream_(device) {
    int sms = 0;
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&shared_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    blocks_ = static_cast<unsigned>(std::lround(share * sms));
    if (share > 0) blocks_ = std::max(blocks_, 1U);
    if (blocks_ == 0) return;
    // As much shared memory as a block may have: no second one fits beside it.
    check(cudaFuncSetAttribute(compute, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_),
          "cudaFuncSetAttribute");
    results_.emplace(device, std::size_t{blocks_} * kLoadThreads * sizeof(std::uint32_t));
  }

  bool any() const noexcept { return blocks_ > 0; }

  /// Launches it. Throws `Error`.
  void launch(std::uint64_t rounds) {
    if (!any()) return;
    rounds_ = rounds;
    compute<<<blocks_, kLoadThreads, static_cast<std::size_t>(shared_), stream_.get()>>>(
        static_cast<std::uint32_t*>(results_->data()), rounds);
    check(cudaGetLastError(), "compute<<<>>>");
  }

  /// How many rounds take about so long. Throws `Error`.
  std::uint64_t rounds_for(double seconds) {
    launch(kTrialRounds);  // the first launch loads the kernel
    wait();
    const auto begin = Steps::now();
    launch(kTrialRounds);
    wait();
    const double each = static_cast<double>(Steps::now() - begin) * 1e-9 / kTrialRounds;
    return static_cast<std::uint64_t>(std::max(seconds / each, 1.0));
  }

  void wait() { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  /// Clears the results: those of an earlier launch of as many rounds are the same. Throws `Error`.
  void clear() {
    if (!any()) return;
    check(cudaMemsetAsync(results_->data(), 0, bytes(), stream_.get()), "cudaMemsetAsync");
    wait();
  }

  /// Results that are not what the rounds give. Throws `Error`.
  std::size_t wrong() const {
    std::vector<std::uint32_t> found(std::size_t{blocks_} * kLoadThreads);
    if (found.empty()) return 0;
    check(cudaMemcpy(found.data(), results_->data(), bytes(), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    const Affine all = rounds_at_once(rounds_);
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < found.size(); ++i)
      wrong += found[i] != all.factor * i + all.summand;
    return wrong;
  }

  std::size_t bytes() const noexcept {
    return std::size_t{blocks_} * kLoadThreads * sizeof(std::uint32_t);
  }
  cudaStream_t stream() const noexcept { return stream_.get(); }

 private:
  int shared_ = 0;
  unsigned blocks_ = 0;
  std::uint64_t rounds_ = 0;
  std::optional<DeviceMemory> results_;
  Stream stream_;
};

/// Memory that goes to the device and comes back, into other memory of the host.
class RoundTrips {
 public:
  RoundTrips(int device, std::size_t bytes)
      : bytes_(bytes),
        from_(DriverMemory::host(bytes, false)),
        to_(DriverMemory::host(bytes, false)),
        between_(device, bytes),
        stream_(device) {}

  void fill(std::uint64_t seed) {
    seed_ = seed;
    fill_pattern(from_.data(), bytes_, seed);
    std::fill_n(static_cast<char*>(to_.data()), bytes_, char{0});
  }

  /// Queues copies there and back. Throws `Error`.
  void queue(int repeats) {
    for (int i = 0; i < repeats; ++i) {
      check(cudaMemcpyAsync(between_.data(), from_.data(), bytes_, cudaMemcpyHostToDevice,
                            stream_.get()),
            "cudaMemcpyAsync");
      check(cudaMemcpyAsync(to_.data(), between_.data(), bytes_, cudaMemcpyDeviceToHost,
                            stream_.get()),
            "cudaMemcpyAsync");
    }
  }

  void wait() { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }
  std::size_t wrong() const { return count_mismatches(to_.data(), bytes_, seed_); }
  cudaStream_t stream() const noexcept { return stream_.get(); }

 private:
  std::size_t bytes_;
  std::uint64_t seed_ = 0;
  DriverMemory from_, to_;
  DeviceMemory between_;
  Stream stream_;
};

bool is_done(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) {
    forgive(status);  // no failure, but the check of the next launch would take it for one
    return false;
  }
  check(status, "cudaStreamQuery");
  return true;
}

/// Does both, and takes the time of each.
void at_once(Steps& steps, Load& load, std::uint64_t rounds, RoundTrips& trips, int repeats,
             const Moved& moved) {
  const auto begin = Steps::now();
  load.launch(rounds);
  trips.queue(repeats);
  std::uint64_t loaded = 0, copied = 0;
  while (loaded == 0 || copied == 0) {
    if (loaded == 0 && is_done(load.stream())) loaded = Steps::now();
    if (copied == 0 && is_done(trips.stream())) copied = Steps::now();
  }
  steps.add("copies with the load", begin, copied, moved);
  steps.add("load with the copies", begin, loaded);
}

}  // namespace

WorkloadReport load_with_copies(const LoadWithCopiesSpec& spec) {
  const ScopedDevice scope(spec.device);
  if (!(spec.load >= 0 && spec.load <= 1) || spec.bytes < 1 || spec.repeats < 1)
    throw Error("load_with_copies", 0, "nothing to do",
                "a load is between 0 and 1, bytes and repeats are 1 or more");
  Steps steps;
  std::optional<Load> load;
  std::optional<RoundTrips> trips;
  steps.take("allocate", {}, [&] {
    load.emplace(spec.device, spec.load);
    trips.emplace(spec.device, spec.bytes);
  });
  steps.take("fill", {}, [&] { trips->fill(1); });
  const auto repeats = static_cast<std::size_t>(spec.repeats);
  const Moved moved{repeats * spec.bytes, repeats * spec.bytes, 2 * repeats};
  const auto begin = Steps::now();
  steps.take("copies alone", moved, [&] {
    trips->queue(spec.repeats);
    trips->wait();
  });
  const double lasted = static_cast<double>(Steps::now() - begin) * 1e-9;
  std::size_t wrong = 0;
  steps.take("check", {}, [&] { wrong = trips->wrong(); });
  if (!load->any()) return steps.done(wrong);
  std::uint64_t rounds = 0;
  steps.take("calibrate the load", {}, [&] { rounds = load->rounds_for(lasted); });
  steps.take("load alone", {}, [&] {
    load->launch(rounds);
    load->wait();
  });
  steps.take("fill again", {}, [&] {
    trips->fill(2);
    load->clear();
  });
  at_once(steps, *load, rounds, *trips, spec.repeats, moved);
  steps.take("check again", {0, load->bytes(), 1},
             [&] { wrong += trips->wrong() + load->wrong(); });
  return steps.done(wrong);
}

}  // namespace lanescope
