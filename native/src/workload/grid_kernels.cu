#include <algorithm>

#include "cuda/cuda_handles.hpp"
#include "workload/grid_check.hpp"
#include "workload/grid_filter.hpp"
#include "workload/grid_points.hpp"

namespace lanescope {

namespace {

constexpr unsigned kGridThreads = 256;
/// Points that a block of the convolution makes.
constexpr int kTileX = 32, kTileY = 16;
constexpr int kTileWidth = kTileX + 2 * kFilterReach, kTileHeight = kTileY + 2 * kFilterReach;

__constant__ GridFilter filter = make_grid_filter();

template <typename Points>
__global__ void __launch_bounds__(kGridThreads) by_columns(Points points, int first, int last) {
  const std::size_t c = std::size_t{blockIdx.x} * kGridThreads + threadIdx.x;
  if (c < points.level_values) points.column(c, first, last);
}

/// Neighbours in a warp are neighbours in memory: whole lines cross the link where that memory
/// is the host's.
template <typename Points>
__global__ void __launch_bounds__(kGridThreads) by_points(Points points, int first) {
  const std::size_t c = std::size_t{blockIdx.x} * kGridThreads + threadIdx.x;
  if (c < points.level_values) points.point(first + static_cast<int>(blockIdx.y), c);
}

__device__ int clamped(int x, int size) {
  return min(max(x, 0), size - 1);
}

/// Each block makes a tile from it and its surroundings, which it keeps at hand; beyond the
/// edges of the grid lies what lies at them.
__global__ void __launch_bounds__(kTileX* kTileY)
    convolve(const double* __restrict__ in, double* __restrict__ out, int nx, int ny, int tiles_x,
             int first, int levels) {
  __shared__ double tile[kTileHeight][kTileWidth];
  const int left = static_cast<int>(blockIdx.x) % tiles_x * kTileX;
  const int top = static_cast<int>(blockIdx.x) / tiles_x * kTileY;
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int begin = first + static_cast<int>(blockIdx.y) * levels;
  for (int k = begin; k < begin + levels; ++k) {
    const std::size_t level = static_cast<std::size_t>(k) * nx * ny;
    for (int y = ty; y < kTileHeight; y += kTileY)
      for (int x = tx; x < kTileWidth; x += kTileX)
        tile[y][x] = in[level + static_cast<std::size_t>(clamped(top + y - kFilterReach, ny)) * nx +
                        clamped(left + x - kFilterReach, nx)];
    __syncthreads();
    double sum = 0;
    for (int j = 0; j < kFilterWidth; ++j)
#pragma unroll
      for (int i = 0; i < kFilterWidth; ++i) sum += filter.at[j][i] * tile[ty + j][tx + i];
    if (top + ty < ny && left + tx < nx)
      out[level + static_cast<std::size_t>(top + ty) * nx + left + tx] = sum;
    __syncthreads();
  }
}

unsigned parts(std::size_t count, std::size_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

void launch_convolution(const GridSpec& spec, const GridArrays& arrays, int first, int count,
                        bool columns, cudaStream_t stream) {
  const unsigned tiles_x = parts(static_cast<std::size_t>(spec.nx), kTileX);
  const unsigned tiles_y = parts(static_cast<std::size_t>(spec.ny), kTileY);
  const dim3 blocks(tiles_x * tiles_y, columns ? 1U : static_cast<unsigned>(count));
  convolve<<<blocks, dim3(kTileX, kTileY), 0, stream>>>(arrays.in[0], arrays.out[0], spec.nx,
                                                        spec.ny, static_cast<int>(tiles_x), first,
                                                        columns ? count : 1);
  check(cudaGetLastError(), "convolve<<<>>>");
}

}  // namespace

void launch_grid_kernel(const GridSpec& spec, const GridArrays& arrays, int first, int count,
                        bool columns, cudaStream_t stream) {
  check_grid(spec, arrays, first, count);
  if (spec.kernel == GridKernel::convolution)
    return launch_convolution(spec, arrays, first, count, columns, stream);
  const unsigned blocks = parts(spec.level_values(), kGridThreads);
  with_points(spec, arrays, [&](const auto& points) {
    if (columns)
      by_columns<<<blocks, kGridThreads, 0, stream>>>(points, first, first + count);
    else
      by_points<<<dim3(blocks, static_cast<unsigned>(count)), kGridThreads, 0, stream>>>(points,
                                                                                         first);
  });
  check(cudaGetLastError(), columns ? "by_columns<<<>>>" : "by_points<<<>>>");
}

}  // namespace lanescope
