#include <algorithm>
#include <vector>

#include "cuda/kernels.hpp"
#include "pattern.hpp"
#include "workload/steps.hpp"

namespace lanescope {

namespace {

/// One stream that copies the same memory again and again.
class Lane {
 public:
  Lane(int device, bool down, std::size_t bytes)
      : down_(down),
        bytes_(bytes),
        host_(DriverMemory::host(bytes, false)),
        memory_(device, bytes),
        stream_(device) {}

  /// Fills what is copied from, and clears what is copied to. Throws `Error`.
  void fill(std::uint64_t seed) {
    seed_ = seed;
    if (down_) {
      fill_pattern(host_.data(), bytes_, seed_);
      check(cudaMemsetAsync(memory_.data(), 0, bytes_, stream_.get()), "cudaMemsetAsync");
    } else {
      std::fill_n(static_cast<char*>(host_.data()), bytes_, char{0});
      launch_fill(stream_.get(), memory_.data(), bytes_, seed_);
    }
    wait();
  }

  /// Queues copies. Throws `Error`.
  void queue(int repeats) {
    const auto kind = down_ ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    void* to = down_ ? memory_.data() : host_.data();
    const void* from = down_ ? host_.data() : memory_.data();
    for (int i = 0; i < repeats; ++i)
      check(cudaMemcpyAsync(to, from, bytes_, kind, stream_.get()), "cudaMemcpyAsync");
  }

  void wait() const { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  /// Bytes that did not arrive as they were sent. Throws `Error`.
  std::size_t wrong() const {
    if (!down_) return count_mismatches(host_.data(), bytes_, seed_);
    const DeviceMemory counter(stream_.device(), sizeof(unsigned long long));
    unsigned long long found = 0;
    check(cudaMemsetAsync(counter.data(), 0, sizeof found, stream_.get()), "cudaMemsetAsync");
    launch_check(stream_.get(), memory_.data(), bytes_, seed_,
                 static_cast<unsigned long long*>(counter.data()));
    wait();
    check(cudaMemcpy(&found, counter.data(), sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return found;
  }

  bool down() const noexcept { return down_; }

 private:
  bool down_;
  std::size_t bytes_;
  std::uint64_t seed_ = 0;
  DriverMemory host_;
  DeviceMemory memory_;
  Stream stream_;
};

void copy(Steps& steps, const char* name, std::vector<Lane>& lanes, bool down, bool up,
          const ConcurrentCopiesSpec& spec) {
  const auto chosen = [&](const Lane& lane) { return lane.down() ? down : up; };
  const auto bytes_of = [&](int streams) {
    return static_cast<std::size_t>(streams) * static_cast<std::size_t>(spec.repeats) * spec.bytes;
  };
  const Moved moved{down ? bytes_of(spec.down) : 0, up ? bytes_of(spec.up) : 0,
                    static_cast<std::size_t>((down ? spec.down : 0) + (up ? spec.up : 0)) *
                        static_cast<std::size_t>(spec.repeats)};
  steps.take(name, moved, [&] {
    // In turns, so that the first copies of all streams are queued early.
    for (int i = 0; i < spec.repeats; ++i)
      for (auto& lane : lanes)
        if (chosen(lane)) lane.queue(1);
    for (auto& lane : lanes)
      if (chosen(lane)) lane.wait();
  });
}

/// Fills all memory, with words that depend on `seed`.
void fill(Steps& steps, const char* name, std::vector<Lane>& lanes, std::uint64_t seed) {
  steps.take(name, {}, [&] {
    for (auto& lane : lanes) lane.fill(seed++);
  });
}

/// Returns how many bytes did not arrive.
std::size_t check_all(Steps& steps, const char* name, const std::vector<Lane>& lanes) {
  const auto down = static_cast<std::size_t>(
      std::count_if(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.down(); }));
  std::size_t wrong = 0;
  steps.take(name, {0, down * sizeof(unsigned long long), down}, [&] {
    for (const auto& lane : lanes) wrong += lane.wrong();
  });
  return wrong;
}

}  // namespace

WorkloadReport concurrent_copies(const ConcurrentCopiesSpec& spec) {
  const ScopedDevice scope(spec.device);
  if (std::min(spec.down, spec.up) < 0 || spec.down + spec.up < 1 || spec.bytes < 1 ||
      spec.repeats < 1)
    throw Error("concurrent_copies", 0, "nothing to copy",
                "streams of one direction, bytes and repeats are 1 or more");
  Steps steps;
  std::vector<Lane> lanes;
  const int streams = spec.down + spec.up;
  lanes.reserve(static_cast<std::size_t>(streams));
  steps.take("allocate", {}, [&] {
    for (int i = 0; i < streams; ++i) lanes.emplace_back(spec.device, i < spec.down, spec.bytes);
  });
  fill(steps, "fill", lanes, 1);
  if (spec.down > 0) copy(steps, "copies to the device", lanes, true, false, spec);
  if (spec.up > 0) copy(steps, "copies to the host", lanes, false, true, spec);
  std::size_t wrong = check_all(steps, "check", lanes);
  if (spec.down > 0 && spec.up > 0) {
    fill(steps, "fill again", lanes, 1 + lanes.size());
    copy(steps, "copies both ways", lanes, true, true, spec);
    wrong += check_all(steps, "check again", lanes);
  }
  return steps.done(wrong);
}

}  // namespace lanescope
