#include "watch/nvml_counters.hpp"

#include <algorithm>
#include <exception>
#include <limits>

namespace lanescope::watch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kFlushNs = 50'000'000;  // what a kill may take with it
constexpr std::uint64_t kWindowNs = 20'000'000;
// On an H200 under load the answer was 60.2e6 where the counters said 60.1 GB/s.
constexpr double kBytesPerUnit = 1000;
constexpr double kKib = 1024;
constexpr std::size_t kMostErrors = 1;

template <typename Count>
double bytes_or_unknown(const std::optional<Count>& count, double bytes_each = 1) {
  return count ? static_cast<double>(*count) * bytes_each : kUnknown;
}

/// Calls a reading; what it costs and why it fails goes to the report.
template <typename Reading>
void counted(CounterReport& report, Reading reading) {
  const double before = thread_cpu_seconds();
  try {
    reading();
  } catch (const std::exception& error) {
    if (report.errors.size() < kMostErrors)
      report.errors.push_back(std::string("The counters could not be read: ") + error.what() + ".");
  }
  ++report.reads;
  report.decode_cpu_seconds += thread_cpu_seconds() - before;
}

}  // namespace

NvmlCounters::Gpu::Gpu(NvmlDevice* handle, const NvmlTarget& target, std::uint64_t period_ns,
                       double most_bytes_per_second)
    : device(handle),
      spool(target.spool, period_ns, false),
      sent(most_bytes_per_second),
      received(most_bytes_per_second) {}

NvmlCounters::NvmlCounters(const std::vector<NvmlTarget>& targets, std::uint64_t period_ns,
                           double most_bytes_per_second, const std::vector<NvmlTarget>& nvlinks,
                           std::uint64_t nvlink_period_ns)
    : period_(period_ns), nvlink_period_(nvlink_period_ns) {
  for (const NvmlTarget& target : targets) {
    NvmlDevice* device = api_.device(target.uuid);
    api_.wire_bytes(device);  // which a GPU without counters refuses
    gpus_.push_back(std::make_unique<Gpu>(device, target, period_ns, most_bytes_per_second));
  }
  for (const NvmlTarget& target : nvlinks) {
    NvmlDevice* device = api_.device(target.uuid);
    api_.nvlink_kib(device);
    nvlinks_.push_back(std::make_unique<Nvlinks>(device, target, nvlink_period_ns));
  }
}

void NvmlCounters::start() {
  worker_.start([this](const Worker::Pause& pause) { work(pause); });
}

std::vector<CounterReport> NvmlCounters::stop() {
  worker_.stop();
  std::vector<CounterReport> reports;
  for (const auto& gpu : gpus_) reports.push_back(gpu->report);
  for (const auto& nvlinks : nvlinks_) reports.push_back(nvlinks->report);
  return reports;
}

void NvmlCounters::work(const Worker::Pause& pause) {
  const auto begin = Clock::now();
  auto flushed = begin, nvlinks_read = begin;
  read_all();
  read_nvlinks();
  for (auto next = begin + period_; pause(next); next = std::max(next + period_, Clock::now())) {
    read_all();
    if (Clock::now() - nvlinks_read >= nvlink_period_) {
      nvlinks_read = Clock::now();
      read_nvlinks();
    }
    if (Clock::now() - flushed < std::chrono::nanoseconds(kFlushNs)) continue;
    flush();
    flushed = Clock::now();
  }
  read_all();
  read_nvlinks();
  flush();
  const auto complete = [&](const CounterSpool& spool, CounterReport& report) {
    spool.complete(report);
    report.cpu_seconds = report.decode_cpu_seconds;
    report.wall_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (const auto& gpu : gpus_) complete(gpu->spool, gpu->report);
  for (const auto& nvlinks : nvlinks_) complete(nvlinks->spool, nvlinks->report);
}

void NvmlCounters::flush() {
  for (const auto& gpu : gpus_) gpu->spool.flush();
  for (const auto& nvlinks : nvlinks_) nvlinks->spool.flush();
}

void NvmlCounters::read_all() {
  for (const auto& gpu : gpus_) counted(gpu->report, [&] { read(*gpu); });
}

void NvmlCounters::read_nvlinks() {
  for (const auto& nvlinks : nvlinks_) counted(nvlinks->report, [&] { read(*nvlinks); });
}

void NvmlCounters::read(Gpu& gpu) {
  const auto [told_ns, received, sent] = api_.wire_bytes(gpu.device);
  const std::uint64_t now = ToldTimes().read(told_ns);
  if (now <= gpu.last_ns) return;  // the driver's last answer once more
  const std::uint64_t elapsed = now - gpu.last_ns;
  const auto tx = gpu.sent.advance(sent, elapsed);
  const auto rx = gpu.received.advance(received, elapsed);
  if (gpu.last_ns != 0)
    gpu.spool.stream().add({gpu.last_ns, now, bytes_or_unknown(rx), bytes_or_unknown(tx)});
  gpu.last_ns = now;
}

void NvmlCounters::read(Nvlinks& nvlinks) {
  const auto [told_ns, received, sent] = api_.nvlink_kib(nvlinks.device);
  const std::uint64_t now = told_ns != 0 ? ToldTimes().read(told_ns) : watch_time_ns();
  if (now <= nvlinks.last_ns) return;
  const auto rx = nvlinks.received.advance(received);
  const auto tx = nvlinks.sent.advance(sent);
  if (nvlinks.last_ns != 0)
    nvlinks.spool.stream().add(
        {nvlinks.last_ns, now, bytes_or_unknown(rx, kKib), bytes_or_unknown(tx, kKib)});
  nvlinks.last_ns = now;
}

NvmlThroughput::NvmlThroughput(const NvmlTarget& target, Direction direction)
    : device_(api_.device(target.uuid)),
      direction_(direction),
      spool_((api_.throughput(device_, direction), target.spool), kWindowNs, false) {}

void NvmlThroughput::start() {
  worker_.start([this](const Worker::Pause& pause) { work(pause); });
}

CounterReport NvmlThroughput::stop() {
  worker_.stop();
  return report_;
}

void NvmlThroughput::work(const Worker::Pause& pause) {
  const auto begin = Clock::now();
  try {
    for (std::uint64_t last = watch_time_ns(); pause(Clock::now());) {
      const std::uint32_t units = api_.throughput(device_, direction_);
      const std::uint64_t now = watch_time_ns();
      const double bytes = units * kBytesPerUnit * static_cast<double>(now - last) * 1e-9;
      const bool sent = direction_ == Direction::sent;
      spool_.stream().add({last, now, sent ? kUnknown : bytes, sent ? bytes : kUnknown});
      spool_.flush();
      last = now;
      ++report_.reads;
    }
  } catch (const std::exception& error) {
    report_.errors.push_back(std::string("The throughput could not be read: ") + error.what() +
                             ".");
  }
  spool_.complete(report_);
  report_.cpu_seconds = report_.decode_cpu_seconds = thread_cpu_seconds();
  report_.wall_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace lanescope::watch
