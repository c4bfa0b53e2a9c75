#include "watch/cuda_link.hpp"

#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <thread>

#include "cuda/host_clock.hpp"
#include "watch/worker.hpp"

namespace lanescope::watch {

namespace {

using std::chrono::nanoseconds;

// A small copy takes some us, in which nothing comes between two looks. What takes longer than
// this is kept waiting: whoever else wants the CPU may have it then, and a stop is seen.
constexpr nanoseconds kSpinsAlone{100'000};
constexpr double kMostSecondsToEnd = 1;
constexpr double kMostSecondsToWarmUp = 10;
constexpr int kWarmups = 4;

/// Works in a thread of its own with `device` current: to make the caller's device current
/// again, as `ScopedDevice` does, would begin a context on GPU 0, which nobody asked for.
template <typename Work>
void apart(int device, const Work& work) {
  std::async(std::launch::async, [&] {
    check(cudaSetDevice(device), "cudaSetDevice");
    work();
  }).get();
}

bool wait_until(const std::function<bool()>& done, double most_seconds) {
  const auto begin = HostClock::now();
  while (!done()) {
    if (seconds_since(begin) > most_seconds) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace

void require_shared_gpu(int device) {
  int mode = cudaComputeModeDefault;
  check(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device), "cudaDeviceGetAttribute");
  if (mode == cudaComputeModeProhibited)
    check(cudaErrorDevicesUnavailable, "cudaDeviceGetAttribute");
  if (mode != cudaComputeModeDefault)
    throw Error("cudaDeviceGetAttribute", mode, "exclusive GPU",
                "the GPU is in exclusive-process mode");
}

CudaLink::Parts::Parts(int device_number, std::size_t bytes)
    : stream(device_number, Priority::lowest),
      host(DriverMemory::host(bytes, false)),
      device(device_number, bytes) {
  std::memset(host.data(), 0, bytes);
}

CudaLink::CudaLink(int device, std::size_t bytes) : device_(device) {
  require_shared_gpu(device);
  apart(device, [&] {
    parts_ = std::make_unique<Parts>(device, bytes);
    warm_up(bytes);
  });
}

void CudaLink::warm_up(std::size_t bytes) {
  const auto begin = HostClock::now();
  const Stopping late = [&] { return seconds_since(begin) > kMostSecondsToWarmUp; };
  for (int i = 0; i < kWarmups; ++i)
    for (const ProbeWay way : {ProbeWay::h2d, ProbeWay::d2h})
      if (!copy(way, bytes, late)) {
        static_cast<void>(parts_.release());  // to free it would wait for the copy
        throw_no_answer(kMostSecondsToWarmUp);
      }
}

CudaLink::~CudaLink() {
  try {
    apart(device_, [&] {
      if (wait_until([&] { return is_idle(); }, kMostSecondsToEnd))
        parts_.reset();
      else
        static_cast<void>(parts_.release());  // to free it would wait for the copy
    });
  } catch (const std::exception&) {  // the GPU is lost: calls that free what is left fail at once
  }
}

void CudaLink::enter() {
  check(cudaSetDevice(device_), "cudaSetDevice");
}

std::uint64_t CudaLink::now_ns() {
  return watch_time_ns();
}

std::optional<std::uint64_t> CudaLink::copy(ProbeWay way, std::size_t bytes,
                                            const Stopping& stopping) {
  void* const host = parts_->host.data();
  void* const device = parts_->device.data();
  const bool down = way == ProbeWay::h2d;
  const auto begin = HostClock::now();
  check(
      cudaMemcpyAsync(down ? device : host, down ? host : device, bytes,
                      down ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, parts_->stream.get()),
      "cudaMemcpyAsync");
  while (!is_idle()) {
    if (HostClock::now() - begin < kSpinsAlone) continue;
    if (stopping()) return std::nullopt;
    std::this_thread::yield();
  }
  const nanoseconds took = HostClock::now() - begin;
  return static_cast<std::uint64_t>(took.count());
}

bool CudaLink::is_idle() const {
  const cudaError_t status = cudaStreamQuery(parts_->stream.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or a later launch would take it for its own
    return false;
  }
  check(status, "cudaStreamQuery");
  return true;
}

}  // namespace lanescope::watch
