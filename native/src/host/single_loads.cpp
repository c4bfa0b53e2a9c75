#include "host/single_loads.hpp"

#include <algorithm>

namespace lanescope {

namespace {

std::uint64_t word_at(const std::byte* place) {
  return *reinterpret_cast<const std::uint64_t*>(place);
}

/// With a sum for each of eight loads, so that no addition waits for the one before it.
std::uint64_t gather_lap(const std::byte* at, std::size_t stride, std::size_t count) {
  constexpr std::size_t kTogether = 8;
  std::uint64_t sums[kTogether] = {};
  for (; count >= kTogether; count -= kTogether, at += kTogether * stride)
    for (std::size_t i = 0; i < kTogether; ++i) sums[i] += word_at(at + i * stride);
  for (std::size_t i = 0; i < count; ++i) sums[i] += word_at(at + i * stride);
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

std::uint64_t chase_loads(std::uint64_t place, std::size_t loads) {
  constexpr std::size_t kUnrolled = 16;
  auto next = [&place] { place = *reinterpret_cast<const volatile std::uint64_t*>(place); };
  for (; loads >= kUnrolled; loads -= kUnrolled)
    for (std::size_t i = 0; i < kUnrolled; ++i) next();
  for (; loads > 0; --loads) next();
  return place;
}

std::uint64_t gather_loads(const void* base, const LoadPlaces& places) {
  std::uint64_t sum = 0;
  const auto* all = static_cast<const std::byte*>(base);
  for (std::size_t lap = 0, first = 0; first < places.count; ++lap, first += places.per_lap)
    sum += gather_lap(all + places.lap_offset(lap), places.stride,
                      std::min(places.per_lap, places.count - first));
  return sum;
}

}  // namespace lanescope
