#include <cmath>

#include "workload/steps.hpp"

namespace lanescope {

namespace {

/// Rounds before the time is taken: the first ones load kernels and wake the link.
constexpr std::size_t kWarmUp = 100;

/// Adds what has arrived to a sum.
__global__ void add_first(const std::uint32_t* arrived, unsigned long long* sum) {
  *sum += *arrived;
}

class Rounds {
 public:
  Rounds(int device, std::size_t bytes)
      : bytes_(bytes),
        host_(DriverMemory::host(bytes, false)),
        memory_(device, bytes),
        sum_(device, sizeof(unsigned long long)),
        stream_(device) {
    check(cudaMemsetAsync(sum_.data(), 0, sizeof(unsigned long long), stream_.get()),
          "cudaMemsetAsync");
  }

  /// Copies the next number, adds it on the device, and waits. Throws `Error`.
  void one() {
    *static_cast<std::uint32_t*>(host_.data()) = ++number_;
    check(cudaMemcpyAsync(memory_.data(), host_.data(), bytes_, cudaMemcpyHostToDevice,
                          stream_.get()),
          "cudaMemcpyAsync");
    add_first<<<1, 1, 0, stream_.get()>>>(static_cast<const std::uint32_t*>(memory_.data()),
                                          static_cast<unsigned long long*>(sum_.data()));
    check(cudaGetLastError(), "add_first<<<>>>");
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    expected_ += number_;
  }

  /// 1 if what arrived does not add up. Throws `Error`.
  std::size_t wrong() const {
    unsigned long long found = 0;
    check(cudaMemcpy(&found, sum_.data(), sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return found == expected_ ? 0 : 1;
  }

 private:
  std::size_t bytes_;
  DriverMemory host_;
  DeviceMemory memory_, sum_;
  Stream stream_;
  std::uint32_t number_ = 0;
  unsigned long long expected_ = 0;
};

/// Does rounds until there are enough or the time is over; returns how many. Each has its place
/// in time: one that is late does not move those after it.
std::size_t run(Rounds& rounds, const ManyCopiesSpec& spec) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::size_t done = 0;
  while (spec.count != 0 ? done < spec.count : since() < spec.seconds) {
    while (spec.rate > 0 && since() * spec.rate < static_cast<double>(done)) {
    }
    rounds.one();
    ++done;
  }
  return done;
}

}  // namespace

WorkloadReport many_copies(const ManyCopiesSpec& spec) {
  const ScopedDevice scope(spec.device);
  const bool ends = spec.count > 0 || (spec.seconds > 0 && std::isfinite(spec.seconds));
  if (spec.bytes < sizeof(std::uint32_t) || !ends || !(spec.rate >= 0))
    throw Error("many_copies", 0, "nothing to copy",
                "a copy has 4 bytes or more, and there is a count of them or a time");
  Steps steps;
  std::optional<Rounds> rounds;
  steps.take("allocate", {}, [&] { rounds.emplace(spec.device, spec.bytes); });
  steps.take("warm up", {kWarmUp * spec.bytes, 0, kWarmUp}, [&] {
    for (std::size_t i = 0; i < kWarmUp; ++i) rounds->one();
  });
  const auto begin = Steps::now();
  const std::size_t done = run(*rounds, spec);
  steps.add("copies", begin, Steps::now(), {done * spec.bytes, 0, done});
  std::size_t wrong = 0;
  steps.take("check", {0, sizeof(unsigned long long), 1}, [&] { wrong = rounds->wrong(); });
  return steps.done(wrong);
}

}  // namespace lanescope
