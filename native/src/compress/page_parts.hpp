#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/piece_threads.hpp"
#include "error.hpp"
#include "host_device.hpp"

namespace lanescope::compress {

/// Where a page lies.
struct Page {
  const std::byte* data;
  std::size_t bytes;
};

/// Bytes of a page from one place to another, and zeros behind them there.
struct PageCopy {
  const std::byte* source;
  std::byte* target;
  std::size_t bytes;
  std::uint32_t zeros = 0;
};

/// Bytes of a parcel, and where they go.
struct ParcelPart {
  std::size_t offset;
  std::size_t bytes;
  std::byte* target;
};

/// What one CTA copies at a time: pages are cut into these.
struct PagePart {
  const std::byte* source;
  std::byte* target;
  std::uint32_t bytes;
  std::uint32_t zeros;
};
static_assert(sizeof(PagePart) == 24);

inline constexpr std::size_t kPagePartBytes = 64 << 10;

/// Appends the parts of a page. All but the last begin and end as the page is aligned.
inline void cut_page(const PageCopy& page, std::vector<PagePart>& out) {
  std::size_t begin = 0;
  do {
    const std::size_t left = page.bytes - begin;
    const bool last = left <= kPagePartBytes;
    const std::size_t size = last ? left : kPagePartBytes;
    out.push_back({page.source + begin, page.target + begin, static_cast<std::uint32_t>(size),
                   last ? page.zeros : 0});
    begin += size;
  } while (begin < page.bytes);
}

inline std::size_t bytes_of_parts(const std::vector<PagePart>& parts) {
  std::size_t sum = 0;
  for (const PagePart& one : parts) sum += one.bytes;
  return sum;
}

/// Throws `Error` where a part does not lie within an array of so many bytes.
inline void require_part(const ParcelPart& part, std::size_t bytes) {
  if (part.offset <= bytes && part.bytes <= bytes - part.offset) return;
  throw Error("restore", 0, "bad values", "a page does not lie within the parcel");
}

/// What one of the threads of a CTA does for a part: in the widest units that addresses allow.
LANESCOPE_HOST_DEVICE inline void copy_part(const PagePart& part, unsigned thread,
                                            unsigned threads) {
  copy_share({reinterpret_cast<const char*>(part.source), reinterpret_cast<char*>(part.target)},
             {0, part.bytes, thread, threads});
  for (std::uint32_t i = thread; i < part.zeros; i += threads)
    part.target[part.bytes + i] = std::byte{0};
}

/// What one thread of many CTAs does for all parts.
LANESCOPE_HOST_DEVICE inline void copy_parts(const PagePart* parts, std::size_t count,
                                             std::size_t cta, std::size_t ctas, unsigned thread,
                                             unsigned threads) {
  for (std::size_t i = cta; i < count; i += ctas) copy_part(parts[i], thread, threads);
}

}  // namespace lanescope::compress
