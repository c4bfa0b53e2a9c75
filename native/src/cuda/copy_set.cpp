#include "lanescope/copy_set.hpp"

#include <chrono>
#include <utility>

#include "lanescope/kernels.hpp"
#include "lanescope/pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kSourceSeed = 0x5EED0000;
constexpr std::uint64_t kSpoiltSeed = 0xBAD0000;
constexpr double kFillTimeoutS = 60;

/// Lets `device` reach `peer` directly; false when it cannot.
bool enable_peer(int device, int peer) {
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
  if (possible == 0) return false;
  const ScopedDevice scope(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  check(status, "cudaDeviceEnablePeerAccess");
  return true;
}

bool must_stage(const CopySpec& spec) {
  const bool between_devices = spec.source.memory == Memory::device &&
                               spec.destination.memory == Memory::device &&
                               spec.source.index != spec.destination.index;
  if (!between_devices) return false;
  const bool forward = enable_peer(spec.source.index, spec.destination.index);
  const bool backward = enable_peer(spec.destination.index, spec.source.index);
  return !forward || !backward;
}

}  // namespace

CopySet::CopySet(std::shared_ptr<const Topology> topology, BufferPool& pool,
                 std::vector<CopySpec> copies, std::vector<int> cpus)
    : topology_(std::move(topology)), cpus_(std::move(cpus)), gate_(copies.at(0).device) {
  const ScopedBinding binding(*topology_, cpus_);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const CopySpec& spec = copies[i];
    // Pinning takes a GPU, too: not the first, which may be another's, but this copy's.
    const ScopedDevice scope(spec.device);
    const bool staged = must_stage(spec);
    jobs_.push_back({spec,
                     pool.lend(spec.source, spec.bytes),
                     pool.lend(spec.destination, spec.bytes),
                     Stream(spec.device),
                     {},
                     kSourceSeed + i,
                     staged});
  }
  for (const Job& job : jobs_) {
    write_pattern(*job.source, job, job.seed);
    write_pattern(*job.destination, job, kSpoiltSeed);
  }
}

void CopySet::write_pattern(const Buffer& buffer, const Job& job, std::uint64_t seed) const {
  const PlaceSpec place = buffer.place();
  if (place.memory == Memory::pageable) {
    fill_pattern(buffer.data(), job.spec.bytes, seed);
    return;
  }
  const Stream stream(place.memory == Memory::device ? place.index : job.spec.device);
  const ScopedDevice scope(stream.device());
  launch_fill(stream.get(), buffer.data(), job.spec.bytes, seed);
  wait_for(stream, kFillTimeoutS);
}

void CopySet::submit(const Job& job) const {
  check(cudaMemcpyAsync(job.destination->data(), job.source->data(), job.spec.bytes,
                        cudaMemcpyDefault, job.stream.get()),
        "cudaMemcpyAsync");
}

std::vector<std::vector<double>> CopySet::run_gated(int windows, int loops) {
  const ScopedBinding binding(*topology_, cpus_);
  const auto boundaries = static_cast<std::size_t>(windows) + 2;  // one window more warms up
  std::vector<const Stream*> streams;
  for (Job& job : jobs_) {
    const ScopedDevice scope(job.spec.device);
    while (job.events.size() < boundaries) job.events.emplace_back();
    streams.push_back(&job.stream);
  }
  gate_.run(streams, [&] {
    // Window by window over all streams: should the queue fill up, all are equally far.
    for (std::size_t boundary = 0; boundary < boundaries; ++boundary)
      for (const Job& job : jobs_) {
        const ScopedDevice scope(job.spec.device);
        for (int loop = 0; boundary > 0 && loop < loops; ++loop) submit(job);
        check(cudaEventRecord(job.events[boundary].get(), job.stream.get()), "cudaEventRecord");
      }
  });
  std::vector<std::vector<double>> seconds(jobs_.size());
  for (std::size_t j = 0; j < jobs_.size(); ++j)
    for (std::size_t boundary = 1; boundary < boundaries; ++boundary)
      seconds[j].push_back(jobs_[j].events[boundary].seconds_since(jobs_[j].events[0]));
  return seconds;
}

std::vector<double> CopySet::run_on_host_clock(int repetitions) {
  const ScopedBinding binding(*topology_, cpus_);
  const Job& job = jobs_.front();
  const ScopedDevice scope(job.spec.device);
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    submit(job);
    check(cudaStreamSynchronize(job.stream.get()), "cudaStreamSynchronize");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
  }
  return seconds;
}

std::size_t CopySet::count_mismatches() {
  std::size_t sum = 0;
  for (const Job& job : jobs_) {
    const Buffer& buffer = *job.destination;
    if (buffer.place().memory == Memory::pageable) {
      sum += lanescope::count_mismatches(buffer.data(), job.spec.bytes, job.seed);
      continue;
    }
    const int device =
        buffer.place().memory == Memory::device ? buffer.place().index : job.spec.device;
    const ScopedDevice scope(device);
    const Stream stream(device);
    const DeviceMemory counter(device, sizeof(unsigned long long));
    check(cudaMemsetAsync(counter.data(), 0, sizeof(unsigned long long), stream.get()),
          "cudaMemsetAsync");
    launch_check(stream.get(), buffer.data(), job.spec.bytes, job.seed,
                 static_cast<unsigned long long*>(counter.data()));
    wait_for(stream, kFillTimeoutS);
    unsigned long long wrong = 0;
    check(cudaMemcpy(&wrong, counter.data(), sizeof wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
    sum += wrong;
  }
  return sum;
}

}  // namespace lanescope
