#include "boost/pages.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace lanescope::boost {

namespace {

// Linux 5.14 has these two, and headers of an older C library lack them.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kMostSampled = 8, kSampledEach = 128 << 10;

enum class Means { none, populate, single_bytes };

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Whole pages around some memory.
struct Pages {
  std::uintptr_t begin, end;
};

Pages pages_of(const void* data, std::size_t bytes) noexcept {
  const std::uintptr_t mask = page_bytes() - 1, at = reinterpret_cast<std::uintptr_t>(data);
  return {at & ~mask, (at + bytes + mask) & ~mask};
}

bool populate(Pages pages, int advice) noexcept {
  int result = 0;
  do result = madvise(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, advice);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0;
}

/// Read a byte through the kernel, and write it back.
bool touch(std::uintptr_t at, bool write) noexcept {
  char value = 0;
  const iovec own{&value, 1}, there{reinterpret_cast<void*>(at), 1};
  return process_vm_readv(getpid(), &own, 1, &there, 1, 0) == 1 &&
         (!write || process_vm_writev(getpid(), &own, 1, &there, 1, 0) == 1);
}

Means means() noexcept {
  static const Means found = [] {
    static char own[1];
    if (populate(pages_of(own, 1), kPopulateRead)) return Means::populate;
    return touch(reinterpret_cast<std::uintptr_t>(own), true) ? Means::single_bytes : Means::none;
  }();
  return found;
}

/// Have pages. Only bytes from `data` on are touched: who shares the first page may write his own.
bool have_pages(Pages pages, std::uintptr_t data, bool write) noexcept {
  if (means() == Means::populate) return populate(pages, write ? kPopulateWrite : kPopulateRead);
  for (std::uintptr_t page = pages.begin; page < pages.end; page += page_bytes())
    if (!touch(std::max(page, data), write)) return false;
  return true;
}

enum class Found { all, some, unmapped };

/// @return how many of some pages are there.
Found look_at(Pages pages) noexcept {
  constexpr std::size_t kLeastPage = 4096;
  std::array<unsigned char, kMostLookedAt / kLeastPage + 1> there;
  const std::size_t count = (pages.end - pages.begin) / page_bytes();
  if (count > there.size() ||
      mincore(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, there.data()) != 0)
    return Found::unmapped;
  const bool all =
      std::all_of(there.begin(), there.begin() + count, [](auto page) { return (page & 1) != 0; });
  return all ? Found::all : Found::some;
}

/// Of pages that are there the first and the last one say what may be done with them.
bool have_ends(Pages pages, std::uintptr_t data, bool write) noexcept {
  const std::size_t page = page_bytes();
  return have_pages({pages.begin, pages.begin + page}, data, write) &&
         (pages.end - pages.begin == page ||
          have_pages({pages.end - page, pages.end}, data, write));
}

// Populating pages that are there takes far longer than asking which are.
bool make_ready(const char* data, std::size_t bytes, bool write) noexcept {
  if (bytes == 0) return true;
  const Pages pages = pages_of(data, bytes);
  const Found found = look_at(pages);
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  if (found == Found::some) return have_pages(pages, at, write);
  return found == Found::all && have_ends(pages, at, write);
}

}  // namespace

bool can_look_at_memory() noexcept {
  return means() != Means::none;
}

bool make_readable(const char* data, std::size_t bytes) noexcept {
  return make_ready(data, bytes, false);
}

bool make_writable(char* data, std::size_t bytes) noexcept {
  return make_ready(data, bytes, true);
}

bool is_ready(const char* data, std::size_t bytes, bool write) noexcept {
  const Pages pages = pages_of(data, bytes);
  return look_at(pages) == Found::all &&
         have_ends(pages, reinterpret_cast<std::uintptr_t>(data), write);
}

bool is_fresh(const char* data, std::size_t bytes) noexcept {
  const std::size_t sampled = std::clamp<std::size_t>(bytes / kSampledEach, 1, kMostSampled);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < sampled; ++i) {
    unsigned char there = 1;
    const char* at = data + bytes / sampled * i + bytes / (2 * sampled);
    const auto page = reinterpret_cast<void*>(pages_of(at, 1).begin);
    if (mincore(page, page_bytes(), &there) == 0 && (there & 1) == 0) ++missing;
  }
  return missing > sampled / 2;
}

void request_huge_pages(char* data, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kMask = kHugePage - 1;
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (at + kMask) & ~kMask, end = (at + bytes) & ~kMask;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace lanescope::boost
