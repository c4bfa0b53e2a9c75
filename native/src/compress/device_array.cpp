#include "compress/device_array.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lanescope::compress {
namespace {

constexpr std::size_t kPartBytes = 8 << 20;

std::size_t required(std::size_t bytes) {
  if (bytes == 0)
    throw Error("array", 0, "bad values", "there is nothing in an array without bytes");
  return bytes;
}

/// Adds what is other in `got`, which lies at `at`, than `values` one after the other.
void add_difference(Difference& found, std::span<const std::byte> got, std::size_t at,
                    std::span<const std::byte> values) {
  for (std::size_t done = 0; done < got.size();) {
    const std::size_t from = (at + done) % values.size();
    const std::size_t count = std::min(got.size() - done, values.size() - from);
    if (std::memcmp(got.data() + done, values.data() + from, count) != 0) {
      for (std::size_t i = 0; i < count; ++i) {
        if (got[done + i] == values[from + i]) continue;
        if (found.bytes++ == 0) found.first = at + done + i;
      }
    }
    done += count;
  }
}

}  // namespace

DeviceArray::DeviceArray(int device, std::size_t bytes)
    : bytes_(required(bytes)), memory_(device, bytes), stream_(device) {}

void DeviceArray::set(unsigned char value) {
  const ScopedDevice scope(device());
  check(cudaMemsetAsync(data(), value, bytes_, stream_.get()), "cudaMemsetAsync");
  wait();
}

/// What is there is doubled within the GPU, so that few values do not take many copies.
void DeviceArray::fill_from(std::span<const std::byte> values) {
  required(values.size());
  const ScopedDevice scope(device());
  std::size_t filled = std::min(values.size(), bytes_);
  check(cudaMemcpyAsync(data(), values.data(), filled, cudaMemcpyHostToDevice, stream_.get()),
        "cudaMemcpyAsync");
  while (filled < bytes_) {
    const std::size_t count = std::min(filled, bytes_ - filled);
    check(cudaMemcpyAsync(data() + filled, data(), count, cudaMemcpyDeviceToDevice, stream_.get()),
          "cudaMemcpyAsync");
    filled += count;
  }
  wait();
}

Difference DeviceArray::compare(std::span<const std::byte> values) const {
  required(values.size());
  const ScopedDevice scope(device());
  std::vector<std::byte> part(std::min(bytes_, kPartBytes));
  Difference found;
  for (std::size_t at = 0; at < bytes_; at += part.size()) {
    const std::span got(part.data(), std::min(part.size(), bytes_ - at));
    check(cudaMemcpyAsync(part.data(), data() + at, got.size(), cudaMemcpyDeviceToHost,
                          stream_.get()),
          "cudaMemcpyAsync");
    wait();
    add_difference(found, got, at, values);
  }
  return found;
}

void DeviceArray::wait() const {
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

}  // namespace lanescope::compress
