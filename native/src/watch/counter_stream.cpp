#include "lanescope/watch/counter_stream.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lanescope::watch {

namespace {

constexpr double kWrap = 4294967296.0;  // 2^32

std::uint32_t stored(double bytes) {
  if (!(bytes >= 0)) return kUnknownBytes;
  return static_cast<std::uint32_t>(std::min(std::round(bytes), double{kUnknownBytes - 1}));
}

}  // namespace

CounterStream::CounterStream(std::uint64_t interval_ns, bool drops_first)
    : interval_ns_(std::max<std::uint64_t>(interval_ns, 1)),
      drops_first_(drops_first),
      dropping_(drops_first) {}

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
  if (sample.start_ns > *end_ns_ + interval_ns_ / 2) {
    counts_.lost += (sample.start_ns - *end_ns_ + interval_ns_ / 2) / interval_ns_;
    ++counts_.gaps;
    put_unknown(sample.start_ns);
  }
  const CounterRecord record{sample.end_ns | (sample.own ? kOwnTraffic : 0),
                             stored(sample.rx_bytes), stored(sample.tx_bytes)};
  const bool known = record.rx_bytes != kUnknownBytes || record.tx_bytes != kUnknownBytes;
  ++(known ? counts_.samples : counts_.lost);
  if (!known) ++counts_.gaps;
  records_.push_back(record);
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

}  // namespace lanescope::watch
