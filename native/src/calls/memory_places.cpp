#include "calls/memory_places.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "inject/same_errno.hpp"

namespace lanescope::calls {

namespace {

// For each thread that copies.
constexpr std::size_t kSets = 1 << kSetBits, kRanges = 4;
constexpr std::uint16_t kMostUsesOfRange = 64;

/// What is asked of the driver; null where it cannot be.
struct Driver {
  decltype(&cuPointerGetAttributes) attributes = nullptr;
  decltype(&cuCtxGetDevice) device = nullptr;
  CUresult (*stream_id)(CUstream, unsigned long long*) = nullptr;

  Driver() noexcept {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    attributes = reinterpret_cast<decltype(attributes)>(dlsym(library, "cuPointerGetAttributes"));
    device = reinterpret_cast<decltype(device)>(dlsym(library, "cuCtxGetDevice"));
    stream_id = reinterpret_cast<decltype(stream_id)>(dlsym(library, "cuStreamGetId"));
  }
};

const Driver& driver() noexcept {
  static const Driver found;
  return found;
}

/// Addresses that lie in the same place; none where `bytes` is 0.
struct Range {
  std::uint64_t begin = 0, bytes = 0;
  MemoryPlace place{kPageable, -1};
  std::uint32_t changes = 0;
  std::uint16_t uses = 0;
};

MemoryPlace place_by(unsigned kind, bool managed, int device) noexcept {
  if (managed) return {kManaged, -1};
  if (kind == CU_MEMORYTYPE_DEVICE) return {kDevice, static_cast<std::int16_t>(device)};
  if (kind == CU_MEMORYTYPE_ARRAY) return {kArray, static_cast<std::int16_t>(device)};
  return {kind == CU_MEMORYTYPE_HOST ? kPinned : kPageable, -1};
}

/// @return the place of an address by the driver, and the allocation around it, where it is of one.
Range ask(std::uint64_t address) noexcept {
  unsigned kind = 0;
  int managed = 0;
  int device = -1;
  Range found;
  std::array names{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 5> values{&kind, &managed, &device, &found.begin, &found.bytes};
  if (driver().attributes == nullptr ||
      driver().attributes(values.size(), names.data(), values.data(), address) != CUDA_SUCCESS)
    return {};
  found.place = place_by(kind, managed != 0, device);
  return found;
}

}  // namespace

/// What a thread remembers. Asking the driver takes ten times as long as all else of a record.
struct Memory {
  std::array<PageSet, kSets> sets;  // first: `set_of`
  std::array<Range, kRanges> ranges;
  std::size_t next_range, next_page;  // to make room
};

namespace {

/// @return what this thread remembers; null where there is no memory for it.
Memory* memory() noexcept {
  if (own_thread.memory != nullptr) return own_thread.memory;
  static const pthread_key_t at_end = [] {
    pthread_key_t key{};
    pthread_key_create(&key, [](void* memory) {
      own_thread.memory = nullptr;
      std::free(memory);
    });
    return key;
  }();
  void* made = std::aligned_alloc(alignof(Memory), sizeof(Memory));
  if (made == nullptr) return nullptr;
  own_thread.memory = static_cast<Memory*>(std::memset(made, 0, sizeof(Memory)));
  pthread_setspecific(at_end, made);
  return own_thread.memory;
}

/// @return the place of an address whose page is not remembered.
MemoryPlace by_range(Memory& memory, std::uint64_t address, std::uint32_t changes) noexcept {
  for (Range& range : memory.ranges)
    if (address - range.begin < range.bytes && range.changes == changes &&
        ++range.uses < kMostUsesOfRange)
      return range.place;
  Range found = ask(address);
  found.changes = changes;
  if (found.bytes > 0) memory.ranges[memory.next_range++ % kRanges] = found;
  return found.place;
}

}  // namespace

void prepare_places() noexcept {
  driver();
  memory();
  thread_number();  // of a thread that may forbid itself system calls
}

MemoryPlace requested_place(std::uint64_t address) noexcept {
  const inject::SameErrno guard;
  Memory* remembered = memory();
  if (remembered == nullptr) return ask(address).place;
  const std::uint64_t number = (address >> kPageBits) + 1;
  const std::uint32_t changes = recording.place_changes.load(std::memory_order_relaxed);
  auto& pages = set_of(*remembered, number).pages;
  auto* page = std::ranges::find(pages, number, &Page::number);
  if (page == pages.end()) page = &pages[remembered->next_page++ % pages.size()];
  const MemoryPlace found = by_range(*remembered, address, changes);
  *page = {number, changes, 0, found.kind, found.device};
  return found;
}

void places_changed() noexcept {
  recording.place_changes.fetch_add(1, std::memory_order_relaxed);
}

std::int16_t current_device() noexcept {
  const inject::SameErrno guard;
  CUdevice device = -1;
  const bool known = driver().device != nullptr && driver().device(&device) == CUDA_SUCCESS;
  return known ? static_cast<std::int16_t>(device) : std::int16_t{-1};
}

std::uint64_t requested_stream_number(const void* stream) noexcept {
  if (stream == nullptr) return 0;  // and the other one stays known
  const inject::SameErrno guard;
  unsigned long long id = 0;
  const auto handle = static_cast<CUstream>(const_cast<void*>(stream));
  const bool known =
      driver().stream_id != nullptr && driver().stream_id(handle, &id) == CUDA_SUCCESS;
  own_thread.stream = stream;
  return own_thread.stream_id = known ? id : reinterpret_cast<std::uintptr_t>(stream);
}

}  // namespace lanescope::calls
