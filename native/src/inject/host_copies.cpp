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
  if (settings_.hashes && call.way == Way::to_device && may_read(call.source)) {
    copy.hash = content_hash(reinterpret_cast<const void*>(call.source), call.bytes);
    copy.head.flags = kHashKnown;
  }
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
