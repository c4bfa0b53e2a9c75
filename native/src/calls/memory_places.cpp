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

constexpr std::size_t kPages = 256;  // for each thread that copies
constexpr int kPageBits = 12;
constexpr std::uint16_t kMostUses = 256;

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

MemoryPlace ask(std::uint64_t address) noexcept {
  unsigned kind = 0;
  int managed = 0;
  int device = -1;
  std::array names{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values{&kind, &managed, &device};
  if (driver().attributes == nullptr ||
      driver().attributes(3, names.data(), values.data(), address) != CUDA_SUCCESS)
    return {kPageable, -1};
  if (managed != 0) return {kManaged, -1};
  if (kind == CU_MEMORYTYPE_DEVICE) return {kDevice, static_cast<std::int16_t>(device)};
  if (kind == CU_MEMORYTYPE_ARRAY) return {kArray, static_cast<std::int16_t>(device)};
  return {kind == CU_MEMORYTYPE_HOST ? kPinned : kPageable, -1};
}

struct Page {
  std::uint64_t number;  // and 1: nothing is remembered in zeros
  std::uint32_t changes;
  std::uint16_t uses;
  MemoryPlace place;
};

std::atomic<std::uint32_t> changed{0};
thread_local Page* own_pages = nullptr;  // not in the thread's own memory, which may be short

/// @return what this thread remembers; null where there is no memory for it.
Page* pages() noexcept {
  if (own_pages != nullptr) return own_pages;
  static const pthread_key_t at_end = [] {
    pthread_key_t key{};
    pthread_key_create(&key, [](void* pages) {
      own_pages = nullptr;
      std::free(pages);
    });
    return key;
  }();
  own_pages = static_cast<Page*>(std::calloc(kPages, sizeof(Page)));
  if (own_pages != nullptr) pthread_setspecific(at_end, own_pages);
  return own_pages;
}

}  // namespace

MemoryPlace place_of(std::uint64_t address) noexcept {
  Page* remembered = pages();
  if (remembered == nullptr) return ask(address);
  const std::uint64_t number = (address >> kPageBits) + 1;
  const std::uint32_t changes = changed.load(std::memory_order_relaxed);
  Page& page = remembered[number % kPages];
  if (page.number != number || page.changes != changes || ++page.uses > kMostUses)
    page = {number, changes, 0, ask(address)};
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
