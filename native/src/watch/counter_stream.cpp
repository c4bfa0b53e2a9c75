#include "watch/counter_stream.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lanescope::watch {

namespace {

constexpr double kWrap = 4294967296.0;  // 2^32
constexpr double kMostBytes = kUnknownBytes - 1;
// Of the clock by which samples are stamped: on an H200 every 4 s by -0.1 to +1.9 µs.
constexpr std::uint64_t kMostCorrectionNs = 2500;
constexpr double kMostParts = 1024;  // 4 TiB: more is no count

std::uint32_t stored(double bytes) {
  if (!(bytes >= 0)) return kUnknownBytes;
  return static_cast<std::uint32_t>(std::min(std::round(bytes), kMostBytes));
}

/// Not a number where nothing is known, as the parts of what is negative can be 0.
double or_unknown(double bytes) {
  return bytes >= 0 ? bytes : std::numeric_limits<double>::quiet_NaN();
}

/// The part of a sum that falls to one of so many equal parts; all of them add up to the sum.
double part_of(double bytes, std::uint64_t part, std::uint64_t parts) {
  const auto until = [&](std::uint64_t n) {
    return std::round(bytes * static_cast<double>(n) / static_cast<double>(parts));
  };
  return until(part + 1) - until(part);
}

}  // namespace

CounterStream::CounterStream(std::uint64_t interval_ns, bool drops_first)
    : interval_ns_(std::max<std::uint64_t>(interval_ns, 1)),
      drops_first_(drops_first),
      dropping_(drops_first) {}

std::uint64_t CounterStream::least_gap_ns() const noexcept {
  return std::max(interval_ns_ / 2, std::min(kMostCorrectionNs, interval_ns_ * 5 / 4));
}

void CounterStream::put_unknown(std::uint64_t end_ns) {
  records_.push_back({end_ns, kUnknownBytes, kUnknownBytes});
  end_ns_ = end_ns;
}

void CounterStream::add(const CounterSample& sample) {
  if (std::exchange(dropping_, false)) return;
  if (!end_ns_) put_unknown(sample.start_ns);  // nothing is known of what was before
  if (sample.end_ns <= *end_ns_) {
    ++counts_.repeated;
    return;
  }
  if (sample.start_ns > *end_ns_ + least_gap_ns()) {
    counts_.lost += (sample.start_ns - *end_ns_ + interval_ns_ / 2) / interval_ns_;
    ++counts_.gaps;
    put_unknown(sample.start_ns);
  }
  const bool known = sample.rx_bytes >= 0 || sample.tx_bytes >= 0;
  ++(known ? counts_.samples : counts_.lost);
  if (!known) ++counts_.gaps;
  put(sample);
}

void CounterStream::put(const CounterSample& sample) {
  const double rx = or_unknown(sample.rx_bytes), tx = or_unknown(sample.tx_bytes);
  const double most = std::fmax(std::fmax(rx, tx), 0);
  const std::uint64_t own = sample.own ? kOwnTraffic : 0;
  if (most <= kMostBytes) {  // nearly always
    records_.push_back({sample.end_ns | own, stored(rx), stored(tx)});
    end_ns_ = sample.end_ns;
    return;
  }
  const auto parts =
      static_cast<std::uint64_t>(std::clamp(std::ceil(most / kMostBytes), 1.0, kMostParts));
  const std::uint64_t begin = *end_ns_, lasted = sample.end_ns - begin;
  for (std::uint64_t part = 0; part < parts; ++part)
    records_.push_back(
        {(part + 1 == parts ? sample.end_ns : begin + lasted / parts * (part + 1)) | own,
         stored(part_of(rx, part, parts)), stored(part_of(tx, part, parts))});
  end_ns_ = sample.end_ns;
}

std::vector<CounterRecord> CounterStream::take() {
  return std::exchange(records_, {});
}

std::optional<std::uint32_t> WrappingCounter::advance(std::uint32_t value,
                                                      std::uint64_t elapsed_ns) {
  const auto before = std::exchange(last_, value);
  if (!before || most_per_second_ * static_cast<double>(elapsed_ns) * 1e-9 >= kWrap)
    return std::nullopt;
  return value - *before;  // modulo 2^32
}

std::optional<std::uint64_t> GrowingCounter::advance(std::uint64_t value) {
  const auto before = std::exchange(last_, value);
  if (!before || value < *before) return std::nullopt;
  return value - *before;
}

}  // namespace lanescope::watch
