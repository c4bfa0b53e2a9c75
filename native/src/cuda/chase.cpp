#include "cuda/chase.hpp"

#include <algorithm>
#include <utility>

#include "cuda/chase_kernel.hpp"
#include "cuda/gate.hpp"
#include "cuda/lend_to.hpp"
#include "cuda/peer.hpp"

namespace lanescope {

namespace {

// Address translation and the link wake up on these.
constexpr int kWarmupHops = 16;
// Chases whose readings are fetched at once.
constexpr std::size_t kMostReadings = 4096;

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}

int multiprocessors_of(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

/// Pinning takes a GPU: this one, and not the first, which may be another's.
DriverMemory pinned_by(int device, std::size_t bytes) {
  const ScopedDevice scope(device);
  return DriverMemory::host(bytes, false);
}

void require_reachable(const ChaseSpec& spec) {
  if (spec.source.memory != Memory::device || spec.source.index == spec.device) return;
  if (!enable_peer(spec.device, spec.source.index))
    throw Error("cudaDeviceCanAccessPeer", static_cast<int>(cudaErrorPeerAccessUnsupported),
                "no peer access", "one device cannot reach the other's memory");
}

}  // namespace

ChaseProbe::ChaseProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, ChaseSpec spec,
                       std::vector<int> cpus)
    : topology_(std::move(topology)),
      cpus_(std::move(cpus)),
      spec_(spec),
      visits_(ring_visits(spec.ring)),
      buffer_(lend_to(spec.device, pool, spec.source, spec.ring.places.span())),
      stream_(spec.device),
      position_(spec.device, sizeof(std::uint64_t)),
      readings_(pinned_by(spec.device, kMostReadings * sizeof(ChaseReading))),
      multiprocessors_(multiprocessors_of(spec.device)) {
  require_reachable(spec_);
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(spec_.device);
  write();
}

void ChaseProbe::write() const {
  const std::uint64_t base = address_of(buffer_->data());
  const LoadPlaces& places = spec_.ring.places;
  if (spec_.source.memory == Memory::device) {
    std::vector<std::byte> image(places.span());
    write_ring(image.data(), base, places, visits_);
    check(cudaMemcpy(buffer_->data(), image.data(), image.size(), cudaMemcpyDefault), "cudaMemcpy");
  } else {
    write_ring(buffer_->data(), base, places, visits_);
  }
  const std::uint64_t first = base + places.offset(visits_.front());
  check(cudaMemcpy(position_.data(), &first, sizeof first, cudaMemcpyHostToDevice), "cudaMemcpy");
  // A copy from pageable memory may return before the device has it all.
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::vector<double> ChaseProbe::run(int samples, int hops) {
  std::vector<double> seconds;
  if (samples < 1 || hops < 1) return seconds;
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(spec_.device);
  for (std::size_t left = static_cast<std::size_t>(samples); left > 0;) {
    const std::size_t count = std::min(left, kMostReadings);
    run_batch(count, hops, seconds);
    left -= count;
  }
  return seconds;
}

/// Nothing here waits for the whole device, or a load could not go on meanwhile.
void ChaseProbe::run_batch(std::size_t count, int hops, std::vector<double>& seconds) {
  auto* readings = static_cast<ChaseReading*>(readings_.data());
  const auto blocks = static_cast<unsigned>(multiprocessors_);
  for (std::size_t i = 0; i < count; ++i)
    launch_chase(stream_.get(), blocks, static_cast<unsigned>(launches_++ % blocks),
                 static_cast<std::uint64_t*>(position_.data()), kWarmupHops, hops, readings + i,
                 spec_.by_bulk);
  wait_for(stream_, kHangTimeoutS);
  for (std::size_t i = 0; i < count; ++i) {
    const ChaseReading reading = readings[i];
    hops_ += static_cast<std::uint64_t>(kWarmupHops) + static_cast<std::uint64_t>(hops);
    const std::uint64_t offset = reading.last - address_of(buffer_->data());
    mismatches_ += offset != spec_.ring.places.offset(visits_[hops_ % visits_.size()]);
    seen_.insert(reading.multiprocessor);
    seconds.push_back(static_cast<double>(reading.end_ns - reading.begin_ns) * 1e-9 / hops);
  }
}

}  // namespace lanescope
