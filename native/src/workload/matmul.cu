#include <algorithm>
#include <cmath>

#include "workload/steps.hpp"

namespace lanescope {

namespace {

constexpr int kTile = 32;
constexpr float kLeft = 1.0F, kRight = 0.01F;
// Of a sum of as many products as there are, in the order of the tiles.
constexpr float kTolerance = 1e-4F;

struct Shape {
  int rows, inner, columns;
};

/// Each block makes one tile of the product, from pairs of tiles that it keeps at hand.
__global__ void multiply(const float* left, const float* right, float* product, Shape shape) {
  __shared__ float a[kTile][kTile], b[kTile][kTile];
  const int row = static_cast<int>(blockIdx.y) * kTile + static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kTile + static_cast<int>(threadIdx.x);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float sum = 0;
  for (int k = 0; k < shape.inner; k += kTile) {
    const bool has_a = row < shape.rows && k + x < shape.inner;
    const bool has_b = k + y < shape.inner && column < shape.columns;
    a[y][x] = has_a ? left[static_cast<std::size_t>(row) * shape.inner + k + x] : 0;
    b[y][x] = has_b ? right[static_cast<std::size_t>(k + y) * shape.columns + column] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  if (row < shape.rows && column < shape.columns)
    product[static_cast<std::size_t>(row) * shape.columns + column] = sum;
}

std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

std::size_t count_wrong(const float* product, const Shape& shape) {
  const float expected = static_cast<float>(shape.inner) * kLeft * kRight;
  return static_cast<std::size_t>(std::count_if(
      product, product + elements(shape.rows, shape.columns),
      [&](float found) { return !(std::fabs(found - expected) <= kTolerance * expected); }));
}

struct Matrices {
  HostFloats left, right, product;
  DeviceMemory device_left, device_right, device_product;
};

Matrices allocate(const MatmulSpec& spec) {
  auto host = [&](int rows, int columns) {
    return HostFloats(elements(rows, columns), spec.pinned);
  };
  auto device = [&](int rows, int columns) {
    return DeviceMemory(spec.device, elements(rows, columns) * sizeof(float));
  };
  return {host(spec.rows, spec.inner),      host(spec.inner, spec.columns),
          host(spec.rows, spec.columns),    device(spec.rows, spec.inner),
          device(spec.inner, spec.columns), device(spec.rows, spec.columns)};
}

void launch(const Matrices& m, const Shape& shape) {
  const auto tiles = [](int length) { return static_cast<unsigned>((length + kTile - 1) / kTile); };
  const dim3 blocks(tiles(shape.columns), tiles(shape.rows)), threads(kTile, kTile);
  multiply<<<blocks, threads>>>(static_cast<const float*>(m.device_left.data()),
                                static_cast<const float*>(m.device_right.data()),
                                static_cast<float*>(m.device_product.data()), shape);
  check(cudaGetLastError(), "multiply<<<>>>");
}

}  // namespace

WorkloadReport matmul(const MatmulSpec& spec) {
  const ScopedDevice scope(spec.device);
  const Shape shape{spec.rows, spec.inner, spec.columns};
  if (std::min({spec.rows, spec.inner, spec.columns, spec.launches}) < 1)
    throw Error("matmul", 0, "no elements", "sides and launches are 1 or more");
  const std::size_t left = elements(spec.rows, spec.inner),
                    right = elements(spec.inner, spec.columns);
  const std::size_t product_bytes = elements(spec.rows, spec.columns) * sizeof(float);
  Steps steps;
  std::optional<Matrices> made;
  steps.take("allocate", {}, [&] { made.emplace(allocate(spec)); });
  Matrices& m = *made;
  steps.take("fill", {}, [&] {
    std::fill_n(m.left.data(), left, kLeft);
    std::fill_n(m.right.data(), right, kRight);
  });
  steps.copy("copy the first matrix to the device", m.device_left.data(), m.left.data(),
             left * sizeof(float), cudaMemcpyHostToDevice);
  steps.copy("copy the second matrix to the device", m.device_right.data(), m.right.data(),
             right * sizeof(float), cudaMemcpyHostToDevice);
  steps.take("multiply", {}, [&] {
    for (int i = 0; i < spec.launches; ++i) launch(m, shape);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  });
  steps.copy("copy the product to the host", m.product.data(), m.device_product.data(),
             product_bytes, cudaMemcpyDeviceToHost);
  std::size_t wrong = 0;
  steps.take("check", {}, [&] { wrong = count_wrong(m.product.data(), shape); });
  return steps.done(wrong);
}

}  // namespace lanescope
