#include "cuda/copy_load.hpp"

#include <thread>
#include <utility>

#include "cuda/gate.hpp"
#include "cuda/host_clock.hpp"
#include "cuda/kernels.hpp"
#include "cuda/lend_to.hpp"
#include "cuda/peer.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kLoadSourceSeed = 0x10AD0000;
constexpr std::uint64_t kLoadSpoiltSeed = 0xBAD0000;

/// The device that fills and checks memory at a place for copies that `device` does.
int device_at(PlaceSpec place, int device) {
  return place.memory == Memory::device ? place.index : device;
}

void require_direct(const CopySpec& spec) {
  const int from = spec.source.index, to = spec.destination.index;
  const bool between_devices = spec.source.memory == Memory::device &&
                               spec.destination.memory == Memory::device && from != to;
  if (between_devices && !(enable_peer(from, to) && enable_peer(to, from)))
    throw Error("cudaDeviceCanAccessPeer", static_cast<int>(cudaErrorPeerAccessUnsupported),
                "no peer access", "the devices cannot reach each other's memory");
}

bool is_done(const Event& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or a later launch would take it for its own
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

}  // namespace

CopyLoad::CopyLoad(std::shared_ptr<const Topology> topology, BufferPool& pool, CopySpec copy)
    : topology_(std::move(topology)),
      spec_(std::move(copy)),
      source_(lend_to(spec_.device, pool, spec_.source, spec_.bytes)),
      destination_(lend_to(spec_.device, pool, spec_.destination, spec_.bytes)),
      stream_(spec_.device) {
  if (source_->is_filled_by_host() || destination_->is_filled_by_host())
    throw Error("CopyLoad", 0, "bad places", "a load needs pinned or device memory");
  require_direct(spec_);
  fill(*source_, kLoadSourceSeed);
  fill(*destination_, kLoadSpoiltSeed);
}

CopyLoad::~CopyLoad() {
  try {
    wait_for(stream_, kHangTimeoutS);
  } catch (const Error&) {  // the GPU is lost, and whoever used it has been told
  }
}

void CopyLoad::fill(const Buffer& buffer, std::uint64_t seed) const {
  const Stream stream(device_at(buffer.place(), spec_.device));
  const ScopedDevice scope(stream.device());
  launch_fill(stream.get(), buffer.data(), spec_.bytes, seed);
  wait_for(stream, kHangTimeoutS);
}

void CopyLoad::start(int copies) {
  const ScopedBinding binding(*topology_, spec_.cpus);
  const ScopedDevice scope(spec_.device);
  copies_ = static_cast<std::size_t>(copies);
  while (events_.size() < copies_ + 1) events_.emplace_back();
  check(cudaEventRecord(events_[0].get(), stream_.get()), "cudaEventRecord");
  for (std::size_t i = 1; i <= copies_; ++i) {
    check(cudaMemcpyAsync(destination_->data(), source_->data(), spec_.bytes, cudaMemcpyDefault,
                          stream_.get()),
          "cudaMemcpyAsync");
    check(cudaEventRecord(events_[i].get(), stream_.get()), "cudaEventRecord");
  }
  const auto begin = HostClock::now();
  while (!is_done(events_[1])) {
    if (seconds_since(begin) > kHangTimeoutS) throw_no_answer(kHangTimeoutS);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

int CopyLoad::completed() const {
  std::size_t done = 0;
  while (done < copies_ && is_done(events_[done + 1])) ++done;
  return static_cast<int>(done);
}

std::vector<double> CopyLoad::finish() {
  wait_for(stream_, kHangTimeoutS);
  std::vector<double> seconds;
  for (std::size_t i = 1; i <= copies_; ++i)
    seconds.push_back(events_[i].seconds_since(events_[i - 1]));
  return seconds;
}

std::size_t CopyLoad::count_mismatches() const {
  const int device = device_at(destination_->place(), spec_.device);
  const ScopedDevice scope(device);
  const Stream stream(device);
  const DeviceMemory counter(device, sizeof(unsigned long long));
  check(cudaMemsetAsync(counter.data(), 0, sizeof(unsigned long long), stream.get()),
        "cudaMemsetAsync");
  launch_check(stream.get(), destination_->data(), spec_.bytes, kLoadSourceSeed,
               static_cast<unsigned long long*>(counter.data()));
  wait_for(stream, kHangTimeoutS);
  unsigned long long wrong = 0;
  check(cudaMemcpy(&wrong, counter.data(), sizeof wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return wrong;
}

}  // namespace lanescope
