#include "inject/host_copies.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "inject/content_hash.hpp"
#include "inject/guarded_hash.hpp"
#include "inject/header.hpp"
#include "inject/under_way.hpp"

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

enum class Memory {
  pageable,
  pinned,  ///< and reading it does nothing but read, and is not slow
  other,   ///< of a GPU, which cannot be read, or managed, which would come back to the host
  unknown,
};

Memory memory_at(std::uint64_t address) noexcept {
  const auto ask = driver().pointer_attribute;
  if (ask == nullptr) return Memory::unknown;
  unsigned kind = 0;
  unsigned managed = 0;
  const CUresult found = ask(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (found == CUDA_ERROR_INVALID_VALUE) return Memory::pageable;  // the driver knows nothing of it
  if (found != CUDA_SUCCESS) return Memory::unknown;
  const bool is_pinned = kind == CU_MEMORYTYPE_HOST &&
                         ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
                         managed == 0 && !is_write_combined(address);
  return is_pinned ? Memory::pinned : Memory::other;
}

thread_local UnderWay under_way;

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
  // Copies that are not known to be over may still change what is sent here.
  const bool is_used_again = settings_.contents && (under_way.forget(call.source, call.bytes) |
                                                    under_way.forget(call.destination, call.bytes));
  const bool sent = call.way == Way::to_device, back = call.way == Way::from_device;
  if (sent && (settings_.hashes || settings_.contents) && !is_used_again)
    look_at(copy, call);
  else if (back && settings_.contents)
    look_at(copy, call);
  return append(copy);
}

bool HostCopies::waited(const WaitCall& call) noexcept {
  bool many = false;
  under_way.take(call, [&](HostCopy copy) {
    if (look_again(copy)) many |= append(copy);
  });
  return many;
}

/// Hash what a copy carries, where that is there and may be read; else note that it is under way.
void HostCopies::look_at(HostCopy& copy, const CopyCall& call) noexcept {
  if (!settings_.hashes && !budget_.allows(copy.bytes, watch::clock_ns(CLOCK_MONOTONIC))) return;
  copy.read_begin_ns = now_ns();
  const bool back = call.way == Way::from_device;
  const std::uint64_t address = back ? copy.destination : copy.source;
  const Memory memory = memory_at(address);
  // A call that copies to pageable memory returns when it is there.
  if (back && call.asynchronous && memory != Memory::pageable) {
    if (memory == Memory::pinned) under_way.add(copy, call.queue);
  } else if (memory != Memory::other) {
    copy.hash = back ? content_hash(reinterpret_cast<const void*>(address), copy.bytes)
                     : sent_parts_.hash(copy);
    copy.head.flags = kHashKnown;
  }
  spend(copy);
}

/// Hash what a copy has brought that was under way. Its memory may be gone: the program may have
/// waited for it by other means before.
/// @return whether that could be.
bool HostCopies::look_again(HostCopy& copy) noexcept {
  constexpr std::uint64_t kTimesAsLong = 3;  // as the kernel copies them first
  const std::int64_t now = watch::clock_ns(CLOCK_MONOTONIC);
  if (!settings_.hashes && !budget_.allows(kTimesAsLong * copy.bytes, now)) return false;
  copy.read_begin_ns = now_ns();
  std::optional<std::uint64_t> hash;
  if (memory_at(copy.destination) == Memory::pinned)
    hash = guarded_hash(copy.destination, copy.bytes);
  copy.hash = hash.value_or(0);
  copy.head.flags = hash ? kHashKnown : 0;
  spend(copy);
  return hash.has_value();
}

/// Note how long the thread was held up since it began to read.
void HostCopies::spend(HostCopy& copy) noexcept {
  copy.read_ns = now_ns() - copy.read_begin_ns;
  budget_.spend(static_cast<std::int64_t>(copy.read_ns));
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
