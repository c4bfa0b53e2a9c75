#include "host/load_probe.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/host_clock.hpp"
#include "error.hpp"
#include "host/cache_flush.hpp"
#include "host/interruption.hpp"
#include "host/single_loads.hpp"
#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kLoadSeed = 0x6A74;
// Places that are no further apart leave no line between them.
constexpr std::size_t kShortestLine = 64;
constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 20;

std::vector<std::uint32_t> visits_of(const LoadSpec& spec) {
  if (!spec.chase) return {};
  return ring_visits({spec.places, *spec.chase});
}

}  // namespace

LoadProbe::LoadProbe(std::shared_ptr<const Topology> topology, BufferPool& pool, LoadSpec spec,
                     std::vector<int> cpus)
    : topology_(std::move(topology)),
      cpus_(std::move(cpus)),
      spec_(spec),
      visits_(visits_of(spec)),
      array_(*topology_, pool, spec.source, spec.places.span(), spec.device) {
  if (spec_.flushed && !can_flush_caches())
    throw Error("LoadProbe", 0, "no cache flush", "no instruction is known");
  const ScopedBinding binding(*topology_, cpus_);
  write();
  array_.require_on_its_node();
}

void LoadProbe::write() {
  if (spec_.chase) {
    write_ring(data(), reinterpret_cast<std::uint64_t>(data()), spec_.places, visits_);
    return;
  }
  for (std::size_t i = 0; i < spec_.places.count; ++i) {
    if (i % kWrittenAtOnce == 0) throw_if_interrupted();
    const std::uint64_t word = pattern_word(kLoadSeed, i);
    std::memcpy(data() + spec_.places.offset(i), &word, sizeof word);
    sum_ += word;
  }
}

std::vector<double> LoadProbe::run(int samples, std::size_t loads) {
  const ScopedBinding binding(*topology_, cpus_);
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) {
    throw_if_interrupted();
    seconds.push_back(sample(loads));
  }
  return seconds;
}

double LoadProbe::sample(std::size_t loads) {
  if (spec_.flushed) flush();
  const auto begin = HostClock::now();
  const std::uint64_t found = load(loads);
  const double seconds = seconds_since(begin);
  mismatches_ += found != expected(loads);
  return seconds;
}

std::uint64_t LoadProbe::load(std::size_t loads) const {
  if (spec_.chase) return chase_loads(address_of_visit(visit_), loads);
  std::uint64_t sum = 0;
  for (std::size_t done = 0; done < loads; done += spec_.places.count) {
    sum += gather_loads(data(), spec_.places);
    asm volatile("" ::: "memory");  // or one pass would do for all
  }
  return sum;
}

std::uint64_t LoadProbe::expected(std::size_t loads) {
  if (!spec_.chase) return sum_ * ((loads + spec_.places.count - 1) / spec_.places.count);
  visit_ = (visit_ + loads) % visits_.size();
  return address_of_visit(visit_);
}

std::uint64_t LoadProbe::address_of_visit(std::size_t visit) const {
  return reinterpret_cast<std::uint64_t>(data()) + spec_.places.offset(visits_[visit]);
}

void LoadProbe::flush() const {
  // The laps lie within so many bytes behind the places of the first.
  const LoadPlaces& places = spec_.places;
  const std::size_t width = std::min(places.stride, places.laps() * LoadPlaces::kLine);
  const std::size_t used = std::min(places.per_lap, places.count);
  if (places.stride <= kShortestLine)
    flush_from_caches(data(), used * places.stride);
  else
    for (std::size_t i = 0; i < used; ++i) flush_from_caches(data() + i * places.stride, width);
  finish_flushes();
}

void LoadProbe::spoil() {
  const std::size_t place = visits_.empty() ? 0 : visits_[visit_];
  std::byte* at = data() + spec_.places.offset(place);
  const std::uint64_t itself = reinterpret_cast<std::uint64_t>(at);
  std::memcpy(at, &itself, sizeof itself);
}

}  // namespace lanescope
