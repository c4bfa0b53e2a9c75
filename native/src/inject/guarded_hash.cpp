#include "inject/guarded_hash.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "inject/content_hash.hpp"

namespace lanescope::inject {

namespace {

constexpr std::size_t kPart = 16 << 10;  // on the program's stack
static_assert(kPart % ContentHash::kBlock == 0);

}  // namespace

std::optional<std::uint64_t> guarded_hash(std::uint64_t address, std::size_t bytes) noexcept {
  alignas(ContentHash::kBlock) char part[kPart];
  ContentHash hash;
  for (std::size_t at = 0; at < bytes; at += kPart) {
    // A write to ourselves: the kernel reads what it is passed as a program would, which it can
    // where a driver has mapped it, too. Memory that it is to read of "another" process it looks up
    // page by page, and refuses such.
    const std::size_t size = std::min(kPart, bytes - at);
    const iovec from{reinterpret_cast<void*>(address + at), size}, to{part, size};
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != static_cast<ssize_t>(size)) return {};
    hash.add(part, size);
  }
  return hash.value();
}

}  // namespace lanescope::inject
