#include "cuda/allocation_probe.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "cuda/host_clock.hpp"
#include "error.hpp"
#include "host/interruption.hpp"
#include "host/pages.hpp"

namespace lanescope {

namespace {

// glibc maps larger pieces anew each time, as long as it is kept from learning (mallopt(3)).
constexpr int kLargestKept = 128 << 10;

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t rounded_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

bool is_on_device(Memory memory) {
  return memory == Memory::device || memory == Memory::pool;
}

bool is_mapped_here(Memory memory) {
  return memory == Memory::huge || memory == Memory::small_pages;
}

bool is_by_driver(Memory memory) {
  return memory != Memory::pageable && !is_mapped_here(memory);
}

/// Room for the first huge page to begin where huge pages do.
std::size_t bytes_to_map(const AllocationSpec& spec) {
  if (spec.place.memory == Memory::huge) return rounded_up(spec.bytes, kHugePage) + kHugePage;
  return rounded_up(spec.bytes, page_bytes());
}

/// Makes the device of an allocation current, where it has one; memory of a node comes from
/// that node.
struct Surroundings {
  Surroundings(const Topology& topology, const AllocationSpec& spec) {
    if (is_by_driver(spec.place.memory)) device.emplace(spec.device);
    if (!is_on_device(spec.place.memory)) policy.emplace(topology, spec.place.index);
  }
  std::optional<ScopedDevice> device;
  std::optional<ScopedMemoryPolicy> policy;
};

}  // namespace

AllocationProbe::AllocationProbe(std::shared_ptr<const Topology> topology, AllocationSpec spec,
                                 std::vector<int> cpus)
    : topology_(std::move(topology)),
      spec_(spec),
      cpus_(std::move(cpus)),
      mapped_bytes_(bytes_to_map(spec)) {
  if (is_on_device(spec_.place.memory)) spec_.device = spec_.place.index;
  const ScopedBinding binding(*topology_, cpus_);
  // What the C library has kept may lie on any node.
  if (spec_.place.memory == Memory::pageable) {
    mallopt(M_MMAP_THRESHOLD, kLargestKept);  // or it would grow with what is released
    malloc_trim(0);
  }
  const Surroundings surroundings(*topology_, spec_);
  try {
    if (spec_.place.memory == Memory::pool) make_pool();
    live(true);
  } catch (...) {
    end_pool();
    throw;
  }
}

AllocationProbe::~AllocationProbe() {
  end_pool();
}

void AllocationProbe::make_pool() {
  stream_.emplace(spec_.device);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, spec_.device};
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  std::uint64_t all = UINT64_MAX;  // what is released stays in the pool
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all),
        "cudaMemPoolSetAttribute");
}

void AllocationProbe::end_pool() noexcept {
  if (pool_ != nullptr) forgive(cudaMemPoolDestroy(pool_));
  pool_ = nullptr;
}

std::vector<Lifetime> AllocationProbe::run(int cycles) {
  const ScopedBinding binding(*topology_, cpus_);
  const Surroundings surroundings(*topology_, spec_);
  std::vector<Lifetime> lives;
  // The last of a batch is looked at, too: memory may have become short meanwhile.
  for (int i = 0; i < cycles; ++i) {
    throw_if_interrupted();
    lives.push_back(live(i + 1 == cycles));
  }
  return lives;
}

Lifetime AllocationProbe::live(bool inspected) {
  const bool touched = !is_on_device(spec_.place.memory);
  const auto seconds = [](HostClock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const auto requested = HostClock::now();
  void* data = allocate();
  const auto got = HostClock::now();
  if (touched) touch(data);
  const auto written = touched ? HostClock::now() : got;
  try {
    if (inspected) inspect(data);
  } catch (...) {
    release(data);
    throw;
  }
  const auto begin = inspected ? HostClock::now() : written;
  release(data);
  return {seconds(got - requested), seconds(written - got), seconds(HostClock::now() - begin)};
}

void* AllocationProbe::allocate() {
  void* data = nullptr;
  const std::size_t bytes = spec_.bytes;
  switch (spec_.place.memory) {
    case Memory::pageable:
      data = std::malloc(bytes);
      if (data == nullptr) throw_errno("malloc of " + std::to_string(bytes) + " bytes");
      return data;
    case Memory::huge:
    case Memory::small_pages:
      return map();
    case Memory::pinned:
      check(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "cudaHostAlloc");
      return data;
    case Memory::write_combined:
      check(cudaHostAlloc(&data, bytes, cudaHostAllocWriteCombined), "cudaHostAlloc");
      return data;
    case Memory::mapped:
      check(cudaHostAlloc(&data, bytes, cudaHostAllocMapped), "cudaHostAlloc");
      return data;
    case Memory::managed:
      check(cudaMallocManaged(&data, bytes), "cudaMallocManaged");
      return data;
    case Memory::device:
      check(cudaMalloc(&data, bytes), "cudaMalloc");
      return data;
    case Memory::pool:
      check(cudaMallocFromPoolAsync(&data, bytes, pool_, stream_->get()),
            "cudaMallocFromPoolAsync");
      check(cudaStreamSynchronize(stream_->get()), "cudaStreamSynchronize");
      return data;
  }
  return data;
}

void* AllocationProbe::map() {
  const bool huge = spec_.place.memory == Memory::huge;
  mapping_ =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw_errno("mmap of " + std::to_string(mapped_bytes_) + " bytes");
  // A kernel without huge pages says no; huge ones are looked for, small ones are then certain.
  madvise(mapping_, mapped_bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (!huge) return mapping_;
  return reinterpret_cast<void*>(rounded_up(reinterpret_cast<std::uintptr_t>(mapping_), kHugePage));
}

void AllocationProbe::touch(void* data) const {
  const std::size_t page = page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + spec_.bytes;
  for (std::uintptr_t at = begin; at < end; at = (at / page + 1) * page)
    *reinterpret_cast<volatile char*>(at) = 1;
}

void AllocationProbe::release(void* data) {
  switch (spec_.place.memory) {
    case Memory::pageable:
      std::free(data);
      return;
    case Memory::huge:
    case Memory::small_pages:
      munmap(mapping_, mapped_bytes_);
      return;
    case Memory::pinned:
    case Memory::write_combined:
    case Memory::mapped:
      check(cudaFreeHost(data), "cudaFreeHost");
      return;
    case Memory::managed:
    case Memory::device:
      check(cudaFree(data), "cudaFree");
      return;
    case Memory::pool:
      check(cudaFreeAsync(data, stream_->get()), "cudaFreeAsync");
      check(cudaStreamSynchronize(stream_->get()), "cudaStreamSynchronize");
      return;
  }
}

void AllocationProbe::inspect(const void* data) const {
  const PlaceSpec place = spec_.place;
  if (place.memory == Memory::huge) require_huge_pages(data, rounded_up(spec_.bytes, kHugePage));
  // glibc may hand out pages that another thread touched long ago.
  const bool is_fresh = place.memory != Memory::pageable || spec_.bytes > std::size_t{kLargestKept};
  if (is_fresh && !is_on_device(place.memory) && topology_->node_count() > 1)
    require_on_node(data, spec_.bytes, place.index);
}

}  // namespace lanescope
