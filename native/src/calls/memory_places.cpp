#include "calls/memory_places.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace lanescope::calls {

namespace {

// For each thread that copies. Pages whose numbers end alike share a set.
constexpr std::size_t kSetBits = 7, kSets = 1 << kSetBits, kPagesOfSet = 4, kRanges = 4;
constexpr int kPageBits = 12;
constexpr std::uint16_t kMostUses = 256, kMostUsesOfRange = 64;

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

struct Page {
  std::uint64_t number;  // and 1: nothing is remembered in zeros
  std::uint32_t changes;
  std::uint16_t uses;
  MemoryPlace place;
};

struct Set {
  std::array<Page, kPagesOfSet> pages;
  std::size_t next;  // to make room
};

/// What a thread remembers. Asking the driver takes ten times as long as all else of a record.
struct Memory {
  std::array<Set, kSets> sets;
  std::array<Range, kRanges> ranges;
  std::size_t next_range;
};

std::atomic<std::uint32_t> changed{0};
thread_local Memory* own_memory = nullptr;  // not in the thread's own, which may be short

/// @return what this thread remembers; null where there is no memory for it.
Memory* memory() noexcept {
  if (own_memory != nullptr) return own_memory;
  static const pthread_key_t at_end = [] {
    pthread_key_t key{};
    pthread_key_create(&key, [](void* memory) {
      own_memory = nullptr;
      std::free(memory);
    });
    return key;
  }();
  own_memory = static_cast<Memory*>(std::calloc(1, sizeof(Memory)));
  if (own_memory != nullptr) pthread_setspecific(at_end, own_memory);
  return own_memory;
}

Set& set_of(Memory& memory, std::uint64_t page) noexcept {
  // Buffers that lie a power of two apart are common.
  return memory.sets[page * 0x9E3779B97F4A7C15 >> (64 - kSetBits)];
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
}

MemoryPlace place_of(std::uint64_t address) noexcept {
  Memory* remembered = memory();
  if (remembered == nullptr) return ask(address).place;
  const std::uint64_t number = (address >> kPageBits) + 1;
  const std::uint32_t changes = changed.load(std::memory_order_relaxed);
  Set& set = set_of(*remembered, number);
  for (Page& page : set.pages)
    if (page.number == number) {
      if (page.changes != changes || ++page.uses > kMostUses)
        page = {number, changes, 0, by_range(*remembered, address, changes)};
      return page.place;
    }
  Page& page = set.pages[set.next++ % kPagesOfSet];
  page = {number, changes, 0, by_range(*remembered, address, changes)};
  return page.place;
}

void places_changed() noexcept {
  changed.fetch_add(1, std::memory_order_relaxed);
}

std::int16_t current_device() noexcept {
  CUdevice device = -1;
  const bool known = driver().device != nullptr && driver().device(&device) == CUDA_SUCCESS;
  return known ? static_cast<std::int16_t>(device) : std::int16_t{-1};
}

std::uint64_t stream_number(const void* stream) noexcept {
  static thread_local const void* last = nullptr;
  static thread_local std::uint64_t number = 0;
  if (stream == nullptr) return 0;
  if (stream == last) return number;
  last = stream;
  unsigned long long id = 0;
  const auto handle = static_cast<CUstream>(const_cast<void*>(stream));
  const bool known =
      driver().stream_id != nullptr && driver().stream_id(handle, &id) == CUDA_SUCCESS;
  return number = known ? id : reinterpret_cast<std::uintptr_t>(stream);
}

}  // namespace lanescope::calls
