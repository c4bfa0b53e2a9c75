#include "compress/page_copier.hpp"

#include <vector>

namespace lanescope::compress {

PageCopier::PageCopier(int gpu) : gpu_(gpu), tables_(gpu) {
  const ScopedDevice scope(gpu);
}

void PageCopier::copy(std::span<const PageCopy> pages, int ctas, cudaStream_t stream) {
  std::vector<PagePart> parts;
  parts.reserve(pages.size());
  for (const PageCopy& one : pages)
    if (one.bytes + one.zeros > 0) cut_page(one, parts);
  const ScopedDevice scope(gpu_);
  copy_parts_behind(tables_, parts, ctas, stream);
}

}  // namespace lanescope::compress
