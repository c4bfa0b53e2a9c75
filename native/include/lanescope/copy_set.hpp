#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lanescope/cuda_handles.hpp"
#include "lanescope/gate.hpp"
#include "lanescope/host_buffer.hpp"
#include "lanescope/topology.hpp"

namespace lanescope {

/// Kind of memory that bytes live in.
enum class Memory { pageable, pinned, device };

/// A place: `index` is a NUMA node for host memory, a device otherwise.
struct PlaceSpec {
  Memory memory;
  int index;
  auto operator<=>(const PlaceSpec&) const = default;
};

/// One copy by a copy engine. `device` executes it: its stream, its engine.
struct CopySpec {
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t bytes;
  int device;
};

/// Memory at a place, of any kind.
class Buffer {
 public:
  Buffer(const Topology& topology, PlaceSpec place, std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const noexcept { return host_ ? host_->data() : device_->data(); }
  std::size_t bytes() const noexcept { return bytes_; }
  PlaceSpec place() const noexcept { return place_; }

 private:
  PlaceSpec place_;
  std::size_t bytes_;
  std::optional<HostBuffer> host_;
  std::optional<DeviceMemory> device_;
};

/// Lends buffers and keeps those given back: pinning memory costs far more than a
/// measurement.
class BufferPool {
 public:
  explicit BufferPool(std::shared_ptr<const Topology> topology) : topology_(std::move(topology)) {}

  /// A buffer of at least `bytes` bytes that nobody else holds. Throws `Error`.
  std::shared_ptr<Buffer> lend(PlaceSpec place, std::size_t bytes);

 private:
  std::shared_ptr<const Topology> topology_;
  std::map<PlaceSpec, std::vector<std::shared_ptr<Buffer>>> buffers_;
};

/// Copies that run at the same time, with their buffers, streams and events.
class CopySet {
 public:
  /// Takes buffers from the pool, fills sources and spoils destinations. The
  /// calling thread runs on `cpus` while it works for this set; empty leaves it
  /// alone. Throws `Error`.
  CopySet(std::shared_ptr<const Topology> topology, BufferPool& pool, std::vector<CopySpec> copies,
          std::vector<int> cpus);

  /// Runs behind the gate. Every stream does `windows` + 1 times `loops` copies,
  /// with an event before, between and after; the first window warms up and is
  /// left out. Result [copy][boundary]: seconds since the copy's own start, at
  /// which its windows begin and end; `windows` + 1 of them.
  std::vector<std::vector<double>> run_gated(int windows, int loops);

  /// Times the first copy with the host's clock, from the call to the completed
  /// transfer; result: `repetitions` times in seconds.
  std::vector<double> run_on_host_clock(int repetitions);

  /// Number of destination bytes that differ from their source.
  std::size_t count_mismatches();

  /// Whether copy number `copy` between two devices goes through host memory,
  /// because they cannot reach each other.
  bool staged(std::size_t copy) const { return jobs_[copy].staged; }

 private:
  struct Job {
    CopySpec spec;
    std::shared_ptr<Buffer> source, destination;
    Stream stream;
    std::vector<Event> events;
    std::uint64_t seed;
    bool staged;
  };

  void submit(const Job& job) const;
  void write_pattern(const Buffer& buffer, const Job& job, std::uint64_t seed) const;

  std::shared_ptr<const Topology> topology_;
  std::vector<int> cpus_;
  std::vector<Job> jobs_;
  Gate gate_;
};

}  // namespace lanescope
