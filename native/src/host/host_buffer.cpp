#include "lanescope/host_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lanescope/error.hpp"

namespace lanescope {

namespace {

// Also the alignment: huge pages need it, and on systems with larger base pages it still is one.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr unsigned kMostTouchers = 16;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

HostBuffer::HostBuffer(const Topology& topology, std::size_t bytes, int node)
    : bytes_(rounded_up(bytes)) {
  void* mapped = mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw_errno("mmap of " + std::to_string(bytes) + " bytes");
  // Keep the aligned part, give the ends back.
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t aligned = rounded_up(begin);
  if (aligned > begin) munmap(mapped, aligned - begin);
  const std::size_t rest = begin + kHugePage - aligned;
  if (rest > 0) munmap(reinterpret_cast<void*>(aligned + bytes_), rest);
  data_ = reinterpret_cast<void*>(aligned);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // a kernel without huge pages says no; that is fine
  try {
    topology.bind_memory(data_, bytes_, node);
  } catch (const Error&) {
    munmap(data_, bytes_);
    throw;
  }
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

void HostBuffer::touch() const {
  const std::size_t pages = bytes_ / kHugePage;
  const std::size_t threads = std::clamp<std::size_t>(
      std::min<std::size_t>(pages / 8, std::thread::hardware_concurrency()), 1, kMostTouchers);
  auto part = [&](std::size_t number) {
    const std::size_t first = pages * number / threads, last = pages * (number + 1) / threads;
    std::memset(static_cast<char*>(data_) + first * kHugePage, 0, (last - first) * kHugePage);
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < threads; ++i) {
    try {
      helpers.emplace_back(part, i);
    } catch (const std::system_error&) {
      part(i);  // no thread more is allowed: it only takes longer
    }
  }
  part(0);
}

}  // namespace lanescope
