#include "inject/host_copies.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <type_traits>
#include <utility>

#include "inject/content_hash.hpp"

namespace lanescope::inject {

namespace {

/// What is asked of the driver; null where it cannot be.
struct Driver {
  CUresult (*pointer_attribute)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*host_flags)(unsigned*, void*) = nullptr;
};

const Driver& driver() noexcept {
  static const Driver found = [] {
    Driver functions;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return functions;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(functions.pointer_attribute, "cuPointerGetAttribute");
    find(functions.host_flags, "cuMemHostGetFlags");
    return functions;
  }();
  return found;
}

/// @return whether a CPU reads pinned memory past its caches, and so very slowly.
bool is_write_combined(std::uint64_t address) noexcept {
  unsigned flags = 0;
  return driver().host_flags != nullptr &&
         driver().host_flags(&flags, reinterpret_cast<void*>(address)) == CUDA_SUCCESS &&
         (flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0;
}

/// @return whether reading host memory that was copied from does nothing but read, and is not
/// slow: memory of a GPU cannot be read, and managed memory would come back to the host.
bool may_read(std::uint64_t address) noexcept {
  const auto ask = driver().pointer_attribute;
  if (ask == nullptr) return true;
  unsigned kind = 0;
  unsigned managed = 0;
  if (ask(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS)
    return true;  // the driver knows nothing of pageable memory
  return kind == CU_MEMORYTYPE_HOST &&
         ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && managed == 0 &&
         !is_write_combined(address);
}

/// @return whether memory is pageable: a call that copies to it returns when it is there.
bool is_pageable(std::uint64_t address) noexcept {
  const auto ask = driver().pointer_attribute;
  unsigned kind = 0;
  return ask != nullptr && ask(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS;
}

/// Copies back to pinned memory of this thread, which may still be under way.
struct UnderWay {
  static constexpr std::size_t kMost = 32;

  HostCopy copy[kMost];
  std::uint64_t stream[kMost];
  std::size_t count = 0;

  void add(const HostCopy& one, std::uint64_t on) noexcept {
    if (count == kMost) return;  // nobody waits for them: they are left as they are
    copy[count] = one;
    stream[count++] = on;
  }
};
thread_local UnderWay under_way;

/// @return whether two numbers name one stream: 0 is the default stream, which also is 1.
bool is_same_stream(std::uint64_t one, std::uint64_t other) noexcept {
  return one == other || (one <= 1 && other <= 1);
}

}  // namespace

bool HostCopies::add(const CopyCall& call, std::uint32_t correlation) noexcept {
  // The driver's call within the runtime's comes first; where it does not tell the way that bytes
  // go, the outer one is told as well.
  static thread_local std::uint32_t last = 0;
  if (correlation == last) return false;
  if (call.way != Way::unknown) last = correlation;
  HostCopy copy{};
  copy.head = {RecordKind::host_copy, 0, sizeof(HostCopy)};
  copy.source = call.source;
  copy.destination = call.destination;
  copy.bytes = call.bytes;
  copy.correlation = correlation;
  copy.node = -1;
  if (settings_.nodes && call.way != Way::from_device) copy.node = nodes_.node_of(call.source);
  if (settings_.nodes && call.way != Way::to_device && copy.node < 0)
    copy.node = nodes_.node_of(call.destination);
  const bool sent = call.way == Way::to_device, back = call.way == Way::from_device;
  if ((settings_.hashes || settings_.contents) && sent) hash(copy, call.source);
  if (settings_.contents && back) {
    if (!call.asynchronous || is_pageable(call.destination))
      hash(copy, call.destination);
    else
      under_way.add(copy, call.stream);
  }
  return append(copy);
}

bool HostCopies::waited(const WaitCall& call) noexcept {
  UnderWay& mine = under_way;
  std::size_t left = 0;
  bool many = false;
  for (std::size_t i = 0; i < mine.count; ++i) {
    if (call.all || is_same_stream(mine.stream[i], call.stream)) {
      hash(mine.copy[i], mine.copy[i].destination);
      if (mine.copy[i].head.flags == kHashKnown) many |= append(mine.copy[i]);
      continue;
    }
    mine.copy[left] = mine.copy[i];
    mine.stream[left++] = mine.stream[i];
  }
  mine.count = left;
  return many;
}

/// Hash what lies at an address, where that may be.
void HostCopies::hash(HostCopy& copy, std::uint64_t address) noexcept {
  const std::int64_t begin = settings_.hashes ? 0 : watch::clock_ns(CLOCK_MONOTONIC);
  if (!settings_.hashes && !budget_.allows(copy.bytes, begin)) return;
  if (!may_read(address)) return;
  copy.hash = content_hash(reinterpret_cast<const void*>(address), copy.bytes);
  copy.head.flags = kHashKnown;
  if (!settings_.hashes) budget_.spend(watch::clock_ns(CLOCK_MONOTONIC) - begin);
}

/// @return whether so many wait that they should be written.
bool HostCopies::append(const HostCopy& copy) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (waiting_.size() < kMost)
      waiting_.push_back(copy);
    else
      ++lost_;
  } catch (...) {
    ++lost_;
  }
  return waiting_.size() >= kMany;
}

std::vector<HostCopy> HostCopies::take(std::uint64_t& lost) noexcept {
  const std::lock_guard lock(mutex_);
  lost += std::exchange(lost_, 0);
  return std::exchange(waiting_, {});
}

}  // namespace lanescope::inject
