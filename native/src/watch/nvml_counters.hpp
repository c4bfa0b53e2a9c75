#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "watch/counter_spool.hpp"
#include "watch/nvml_api.hpp"
#include "watch/worker.hpp"

namespace lanescope::watch {

/// A GPU by its UUID, and the spool of what its link carries.
struct NvmlTarget {
  std::string uuid;
  CounterSpool::Target spool;
};

/// Reads the driver's own counters of bytes on the link, of every GPU in turn, in one thread;
/// those of NVLinks as well, more rarely.
///
/// They have 32 bits: an interval in which the link could have carried more is written as
/// unknown. Times are the driver's own, of the middle between its two readings.
class NvmlCounters {
 public:
  /// Reads each GPU once. A read takes 160 to 500 us of CPU, so that `period_ns` is what is
  /// tried. `most_bytes_per_second`: no link is faster. Throws `Error`.
  /// `nvlinks`: the GPUs whose NVLinks are read, every `nvlink_period_ns`; each is read once.
  NvmlCounters(const std::vector<NvmlTarget>& targets, std::uint64_t period_ns,
               double most_bytes_per_second, const std::vector<NvmlTarget>& nvlinks = {},
               std::uint64_t nvlink_period_ns = 10'000'000);

  void start();

  /// Reads once more, and tells how it went for each GPU, and then for the NVLinks of each
  /// whose are read; once.
  std::vector<CounterReport> stop();

 private:
  /// What the NVLinks of one GPU carry, all together.
  struct Nvlinks {
    Nvlinks(NvmlDevice* handle, const NvmlTarget& target, std::uint64_t period_ns)
        : device(handle), spool(target.spool, period_ns, false) {}

    NvmlDevice* device;
    CounterSpool spool;
    GrowingCounter sent{}, received{};
    std::uint64_t last_ns = 0;
    CounterReport report{};
  };
  struct Gpu {
    Gpu(NvmlDevice* handle, const NvmlTarget& target, std::uint64_t period_ns,
        double most_bytes_per_second);

    NvmlDevice* device;
    CounterSpool spool;
    WrappingCounter sent, received;
    std::uint64_t last_ns = 0;
    CounterReport report{};
  };

  void work(const Worker::Pause& pause);
  void read_all();
  void read_nvlinks();
  void read(Gpu& gpu);
  void read(Nvlinks& nvlinks);
  void flush();

  NvmlApi api_;
  std::chrono::nanoseconds period_, nvlink_period_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<std::unique_ptr<Nvlinks>> nvlinks_;
  Worker worker_;  // last: its thread ends before what it uses
};

/// Asks the driver again and again what one direction carried in the last 20 ms: the old way,
/// for GPUs without counters. The other direction is unknown in its records.
class NvmlThroughput {
 public:
  /// Asks once. Throws `Error`.
  NvmlThroughput(const NvmlTarget& target, Direction direction);

  void start();

  /// Ends after the call that is under way, and tells how it went; once.
  CounterReport stop();

 private:
  void work(const Worker::Pause& pause);

  NvmlApi api_;
  NvmlDevice* device_;
  Direction direction_;
  CounterSpool spool_;
  CounterReport report_;
  Worker worker_;  // last: its thread ends before what it uses
};

}  // namespace lanescope::watch
