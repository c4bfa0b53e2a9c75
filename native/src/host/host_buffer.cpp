#include "host/host_buffer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "error.hpp"
#include "host/parallel.hpp"

namespace lanescope {

namespace {

// Also the alignment: huge pages need it, and on systems with larger base pages it still is one.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

HostBuffer::HostBuffer(const Topology& topology, std::size_t bytes, int node, Pages pages)
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
  // A kernel without huge pages says no to either; that is fine.
  madvise(data_, bytes_, pages == Pages::small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  try {
    if (!topology.bind_memory(data_, bytes_, node)) touch_from(topology, node);
  } catch (...) {
    munmap(data_, bytes_);
    throw;
  }
  if (topology.node_count() > 1) node_ = node;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      node_(other.node_) {}

void HostBuffer::require_on_its_node() const {
  if (node_) require_on_node(data_, bytes_, *node_);
}

void HostBuffer::touch_from(const Topology& topology, int node) const {
  const auto cpus = topology.cpus_of_node(node);
  if (cpus.empty())
    throw Error("hwloc_set_area_membind", EPERM, "binding forbidden",
                "no CPU lies next to the node that could touch its memory first");
  in_parallel(bytes_ / kHugePage, 8, [&](std::size_t first, std::size_t last) {
    const ScopedBinding binding(topology, cpus);
    std::memset(static_cast<char*>(data_) + first * kHugePage, 0, (last - first) * kHugePage);
  });
}

void HostBuffer::touch() const {
  in_parallel(bytes_ / kHugePage, 8, [&](std::size_t first, std::size_t last) {
    std::memset(static_cast<char*>(data_) + first * kHugePage, 0, (last - first) * kHugePage);
  });
  require_on_its_node();
}

}  // namespace lanescope
