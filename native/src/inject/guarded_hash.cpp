#include "inject/guarded_hash.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "inject/content_hash.hpp"

namespace lanescope::inject {

namespace {

constexpr std::size_t kPart = 64 << 10;  // a call for each quarter would take twice as long in all
static_assert(kPart % kPartBytes == 0);

}  // namespace

std::optional<std::uint64_t> guarded_hash(std::uint64_t address, std::size_t bytes) noexcept {
  // Not on the program's stack, which may be short.
  const std::unique_ptr<char[]> part(new (std::nothrow) char[std::min(kPart, bytes)]);
  if (part == nullptr) return {};
  ContentHash hash;
  for (std::size_t at = 0; at < bytes; at += kPart) {
    // A write to ourselves: the kernel reads what it is passed as a program would, which it can
    // where a driver has mapped it, too. Memory that it is to read of "another" process it looks up
    // page by page, and refuses such.
    const std::size_t size = std::min(kPart, bytes - at);
    const iovec from{reinterpret_cast<void*>(address + at), size}, to{part.get(), size};
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != static_cast<ssize_t>(size)) return {};
    hash.add(part.get(), size);
  }
  return hash.value();
}

}  // namespace lanescope::inject
