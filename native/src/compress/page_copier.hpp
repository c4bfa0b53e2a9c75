#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "compress/page_kernels.hpp"
#include "compress/table_pool.hpp"

namespace lanescope::compress {

/// Copies parts by one kernel, of which the table comes to the device first. The stream's device is
/// current. Throws `Error`.
inline void copy_parts_behind(TablePool& tables, std::span<const PagePart> parts, int ctas,
                              cudaStream_t stream) {
  tables.with(std::as_bytes(parts), stream, [&](const std::byte* table) {
    launch_copy_parts(reinterpret_cast<const PagePart*>(table), parts.size(), ctas, stream);
  });
}

/// Copies pages of a GPU's memory, by one kernel for all of them; pages and their other places lie
/// where that GPU's kernels reach them. Nothing waits on the host. May be used by several threads.
class PageCopier {
 public:
  /// Throws `Error` if there is no such device.
  explicit PageCopier(int gpu);

  /// Copies each page behind what is on a stream of the GPU, on so many CTAs at most. Throws
  /// `Error`.
  void copy(std::span<const PageCopy> pages, int ctas, cudaStream_t stream);

 private:
  int gpu_;
  TablePool tables_;
};

}  // namespace lanescope::compress
