#include "compress/report.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace lanescope::compress {

namespace {

constexpr std::size_t kLeastParts = 64;

void bring(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
}

}  // namespace

Report::Report(int encoder, int decoder, std::size_t parts)
    : parts_(parts),
      used_(encoder, parts * sizeof(unsigned long long)),
      faults_(decoder, parts * sizeof(Fault)),
      held_sum_(decoder, sizeof(unsigned long long)),
      host_(DriverMemory::host(parts * (sizeof(unsigned long long) + sizeof(Fault)), false)) {}

unsigned long long* Report::used(std::size_t part) const noexcept {
  return static_cast<unsigned long long*>(used_.data()) + part;
}

Fault* Report::fault(std::size_t part) const noexcept {
  return static_cast<Fault*>(faults_.data()) + part;
}

unsigned long long* Report::held_sum() const noexcept {
  return static_cast<unsigned long long*>(held_sum_.data());
}

void Report::clear_used(std::size_t parts, cudaStream_t stream) const {
  check(cudaMemsetAsync(used(0), 0, parts * sizeof(unsigned long long), stream), "cudaMemsetAsync");
}

void Report::clear_faults(std::size_t parts, cudaStream_t stream) const {
  check(cudaMemsetAsync(fault(0), 0, parts * sizeof(Fault), stream), "cudaMemsetAsync");
}

void Report::bring_used(std::size_t parts, cudaStream_t stream) const {
  bring(host_.data(), used(0), parts * sizeof(unsigned long long), stream);
}

void Report::bring_faults(std::size_t parts, cudaStream_t stream) const {
  bring(static_cast<unsigned long long*>(host_.data()) + parts_, fault(0), parts * sizeof(Fault),
        stream);
}

std::span<const unsigned long long> Report::brought_used() const noexcept {
  return {static_cast<const unsigned long long*>(host_.data()), parts_};
}

std::span<const Fault> Report::brought_faults() const noexcept {
  const auto* behind = static_cast<const unsigned long long*>(host_.data()) + parts_;
  return {reinterpret_cast<const Fault*>(behind), parts_};
}

std::unique_ptr<Report> ReportPool::lend(std::size_t parts) {
  const auto enough = [&](const auto& one) { return one->parts() >= parts; };
  const auto found = std::find_if(kept_.begin(), kept_.end(), enough);
  if (found != kept_.end()) {
    auto report = std::move(*found);
    kept_.erase(found);
    return report;
  }
  try {
    return std::make_unique<Report>(encoder_, decoder_,
                                    std::bit_ceil(std::max(parts, kLeastParts)));
  } catch (const Error& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    return nullptr;
  }
}

void ReportPool::take_back(std::unique_ptr<Report> report) {
  if (report) kept_.push_back(std::move(report));
}

}  // namespace lanescope::compress
