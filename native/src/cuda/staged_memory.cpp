#include "cuda/staged_memory.hpp"

#include <sys/mman.h>

#include "cuda/gate.hpp"
#include "cuda/kernels.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kLeavingSeed = 0x5EED1EAF, kForgottenSeed = 0xBAD1EAF;
constexpr double kStagingTimeoutS = 20;

}  // namespace

StagedMemory::Pages::Pages(int descriptor, std::size_t bytes) : bytes_(bytes) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data_ == MAP_FAILED) throw_errno("mmap");
  const cudaError_t status = cudaHostRegister(data_, bytes, cudaHostRegisterPortable);
  if (status != cudaSuccess) munmap(data_, bytes_);
  check(status, "cudaHostRegister");
}

StagedMemory::Pages::~Pages() {
  forgive(cudaHostUnregister(data_));
  munmap(data_, bytes_);
}

StagedMemory::StagedMemory(int device, int descriptor, std::size_t bytes)
    : device_(device),
      bytes_(bytes),
      stream_(device),
      leaving_(device, bytes),
      coming_(device, bytes),
      pages_(descriptor, 2 * bytes) {
  const ScopedDevice scope(device);
  launch_fill(stream_.get(), leaving_.data(), bytes, kLeavingSeed);
  launch_fill(stream_.get(), coming_.data(), bytes, kForgottenSeed);
  wait_for(stream_, kStagingTimeoutS);
}

void StagedMemory::copy(void* to, const void* from, std::size_t bytes) const {
  const ScopedDevice scope(device_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
  wait_for(stream_, kStagingTimeoutS);
}

void StagedMemory::to_host(std::size_t begin, std::size_t bytes) const {
  copy(pages_.data() + begin, static_cast<const std::byte*>(leaving_.data()) + begin, bytes);
}

void StagedMemory::to_device(std::size_t begin, std::size_t bytes) const {
  copy(static_cast<std::byte*>(coming_.data()) + begin, pages_.data() + bytes_ + begin, bytes);
}

std::size_t StagedMemory::count_mismatches(std::size_t bytes) const {
  const ScopedDevice scope(device_);
  const DeviceMemory counter(device_, sizeof(unsigned long long));
  auto* wrong = static_cast<unsigned long long*>(counter.data());
  check(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream_.get()), "cudaMemsetAsync");
  launch_check(stream_.get(), coming_.data(), bytes, kLeavingSeed, wrong);
  launch_fill(stream_.get(), coming_.data(), bytes_, kForgottenSeed);
  wait_for(stream_, kStagingTimeoutS);
  unsigned long long found = 0;
  check(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return found;
}

}  // namespace lanescope
