#include "compress/room.hpp"

#include <algorithm>
#include <cstdint>

#include "compress/slabs.hpp"
#include "compress/stream_order.hpp"

namespace lanescope::compress {

namespace {

constexpr std::size_t kRoomLine = 256;
/// An encoder may be held up by others for a while; and nanoseconds have to fit.
constexpr double kLeastPatience_s = 30, kMostPatience_s = 1e9;

constexpr std::size_t lined(std::size_t bytes) {
  return (bytes + kRoomLine - 1) / kRoomLine * kRoomLine;
}

std::variant<DeviceMemory, DriverMemory> memory_for(int to, std::size_t bytes, Via via) {
  if (via == Via::host) return DriverMemory::host(bytes, false);
  return DeviceMemory(to, bytes);
}

}  // namespace

std::uint64_t arrival_patience_ns(double patience_s) {
  const double patience = std::clamp(patience_s, kLeastPatience_s, kMostPatience_s);
  return static_cast<std::uint64_t>(patience * 1e9);
}

Room::Room(int from, int to, std::size_t slab_bytes, Via via)
    : free(event_on(to, Timing::none)),
      written(event_on(from, Timing::none)),
      blocks_(blocks_of(slab_bytes)),
      base_sums_at_(padded((blocks_ + 1) * sizeof(unsigned int))),
      entries_at_(lined(base_sums_at_ + blocks_ * sizeof(unsigned long long))),
      payloads_at_(entries_at_ + lined(blocks_ * sizeof(Entry))),
      memory_(memory_for(to, payloads_at_ + slab_bytes, via)),
      taken_(from, sizeof(unsigned int)) {
  zero(to, data(), entries_at_);
  zero(from, taken(), sizeof(unsigned int));
}

std::byte* Room::data() const {
  return static_cast<std::byte*>(std::visit([](const auto& one) { return one.data(); }, memory_));
}

Arrival Room::arrival(double patience_s) const {
  return {stored(), mark_, given_up(), arrival_patience_ns(patience_s)};
}

}  // namespace lanescope::compress
