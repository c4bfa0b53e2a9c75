#include <algorithm>

#include "workload/steps.hpp"

namespace lanescope {

namespace {

constexpr unsigned kAddThreads = 256;

__global__ void add(const float* x, float* y, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] += x[i];
}

// Small whole numbers: their sums are exact.
float x_at(std::size_t i) {
  return static_cast<float>(i % 1021);
}
float y_at(std::size_t i) {
  return static_cast<float>(i % 509);
}

std::size_t count_wrong(const float* x, const float* y, std::size_t count) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += x[i] != x_at(i) || y[i] != x_at(i) + y_at(i);
  return wrong;
}

}  // namespace

WorkloadReport vector_add(const VectorAddSpec& spec) {
  const ScopedDevice scope(spec.device);
  const std::size_t count = spec.bytes / sizeof(float), bytes = count * sizeof(float);
  if (count == 0) throw Error("vector_add", 0, "no elements", "a vector needs 4 bytes or more");
  Steps steps;
  std::optional<HostFloats> x, y;
  std::optional<DeviceMemory> device_x, device_y;
  steps.take("allocate", {}, [&] {
    x.emplace(count, spec.pinned);
    y.emplace(count, spec.pinned);
    device_x.emplace(spec.device, bytes);
    device_y.emplace(spec.device, bytes);
  });
  steps.take("fill", {}, [&] {
    for (std::size_t i = 0; i < count; ++i) {
      x->data()[i] = x_at(i);
      y->data()[i] = y_at(i);
    }
  });
  steps.copy("copy x to the device", device_x->data(), x->data(), bytes, cudaMemcpyHostToDevice);
  steps.copy("copy y to the device", device_y->data(), y->data(), bytes, cudaMemcpyHostToDevice);
  steps.take("add", {}, [&] {
    const auto blocks = static_cast<unsigned>(
        std::min<std::size_t>((count + kAddThreads - 1) / kAddThreads, 1U << 16));
    add<<<blocks, kAddThreads>>>(static_cast<const float*>(device_x->data()),
                                 static_cast<float*>(device_y->data()), count);
    check(cudaGetLastError(), "add<<<>>>");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  });
  steps.copy("copy x to the host", x->data(), device_x->data(), bytes, cudaMemcpyDeviceToHost);
  steps.copy("copy y to the host", y->data(), device_y->data(), bytes, cudaMemcpyDeviceToHost);
  std::size_t wrong = 0;
  steps.take("check", {}, [&] { wrong = count_wrong(x->data(), y->data(), count); });
  return steps.done(wrong);
}

}  // namespace lanescope
