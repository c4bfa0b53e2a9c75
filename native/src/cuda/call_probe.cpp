#include "cuda/call_probe.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "cuda/host_clock.hpp"
#include "cuda/latency_kernels.hpp"
#include "cuda/lend_to.hpp"

namespace lanescope {

namespace {

constexpr int kCallWarmups = 4;
constexpr double kCallTimeoutS = 10;
constexpr std::size_t kFewestBytes = 64;
constexpr int kMessage = 0xA5;
constexpr int kNothing = 0;

bool is_host(const Buffer& buffer) {
  return buffer.place().memory != Memory::device;
}

void fill(const Buffer& buffer, int value, std::size_t bytes) {
  if (is_host(buffer)) {
    std::memset(buffer.data(), value, bytes);
    return;
  }
  const ScopedDevice scope(buffer.place().index);
  check(cudaMemset(buffer.data(), value, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace

CallProbe::CallProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, CallSpec spec,
                     std::vector<int> cpus)
    : topology_(std::move(topology)),
      cpus_(std::move(cpus)),
      spec_(spec),
      source_(lend_to(spec.device, pool, spec.source, std::max(spec.bytes, kFewestBytes))),
      destination_(
          lend_to(spec.device, pool, spec.destination, std::max(spec.bytes, kFewestBytes))),
      stream_(spec.device) {
  const bool sees_destination = is_host(*destination_);
  if (spec_.call == Call::copy_spin ? !sees_destination
                                    : !copies() && !sees_destination && !is_host(*source_))
    throw Error("CallProbe", 0, "bad places", "the host cannot see what it should wait for");
  fill(*source_, kMessage, spec_.bytes);
  fill(*destination_, kNothing, spec_.bytes);
  if (!copies()) word() = 0;
}

std::uint32_t& CallProbe::word() const {
  const Buffer& host = is_host(*destination_) ? *destination_ : *source_;
  return *static_cast<std::uint32_t*>(host.data());
}

std::uint8_t& CallProbe::last_byte() const {
  return static_cast<std::uint8_t*>(destination_->data())[spec_.bytes - 1];
}

std::vector<double> CallProbe::run(int repetitions) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(spec_.device);
  for (int i = 0; i < kCallWarmups; ++i) once();
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(once());
  return seconds;
}

double CallProbe::once() {
  reset();
  const auto begin = HostClock::now();
  submit();
  wait();
  const double seconds = seconds_since(begin);
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  return seconds;
}

void CallProbe::reset() {
  if (spec_.call == Call::copy_spin)
    std::atomic_ref(last_byte()).store(kNothing, std::memory_order_seq_cst);
  else if (!copies() && spec_.call != Call::launch)
    ++round_;
}

void CallProbe::submit() {
  if (copies())
    check(cudaMemcpyAsync(destination_->data(), source_->data(), spec_.bytes, cudaMemcpyDefault,
                          stream_.get()),
          "cudaMemcpyAsync");
  else if (spec_.call == Call::launch)
    launch_empty(stream_.get());
  else
    launch_signal(stream_.get(), &word(), round_);
}

void CallProbe::wait() {
  switch (spec_.call) {
    case Call::launch:
    case Call::copy_submit:
      return;
    case Call::kernel_sync:
    case Call::copy_sync:
      check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
      return;
    case Call::kernel_spin:
      spin_until(word(), round_, kCallTimeoutS);
      return;
    case Call::copy_spin:
      spin_until(last_byte(), std::uint8_t{kMessage}, kCallTimeoutS);
      return;
  }
}

std::size_t CallProbe::count_mismatches() const {
  if (!copies()) return word() == round_ ? 0 : sizeof(std::uint32_t);
  const ScopedDevice scope(spec_.device);
  std::vector<std::uint8_t> arrived(spec_.bytes);
  check(cudaMemcpy(arrived.data(), destination_->data(), spec_.bytes, cudaMemcpyDefault),
        "cudaMemcpy");
  return spec_.bytes - static_cast<std::size_t>(
                           std::count(arrived.begin(), arrived.end(), std::uint8_t{kMessage}));
}

}  // namespace lanescope
