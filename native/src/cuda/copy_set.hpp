#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "block_gaps.hpp"
#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "cuda/gate.hpp"
#include "cuda/peer.hpp"
#include "cuda/sm_copy.hpp"
#include "host/block_walk.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// Which call copies between devices.
enum class Route {
  peer,    ///< cudaMemcpyPeerAsync.
  uva,     ///< cudaMemcpyAsync, which tells by the addresses where they lie.
  staged,  ///< cudaMemcpyPeerAsync between devices that cannot reach each other.
};

/// Which addresses the repetitions of a copy touch: blocks of its size within `span_bytes` bytes
/// of each array. `flushed`: none of the host's memory is in the CPUs' caches when a run begins.
struct Walk {
  std::size_t span_bytes;
  BlockPattern pattern;
  bool flushed;
};

/// One copy. `device` executes it: its stream, its copy engine, or its SMs when `sm`
/// says how they copy. The thread that submits it runs on `cpus`; empty leaves it alone.
/// Copies by SMs do not walk.
struct CopySpec {
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t bytes;
  int device;
  std::vector<int> cpus;
  std::optional<SmShape> sm;
  Walk walk;
  Route route;
};

/// Copies that run at the same time, with their buffers, streams and events.
class CopySet {
 public:
  /// Seconds of boundaries between windows, [copy][boundary]: `windows` + 1 of each copy.
  using Boundaries = std::vector<std::vector<double>>;

  /// Takes buffers from the pool, fills sources and spoils destinations. Throws `Error`.
  CopySet(std::shared_ptr<const Topology> topology, BufferPool& pool, std::vector<CopySpec> copies);
  CopySet(const CopySet&) = delete;
  CopySet& operator=(const CopySet&) = delete;

  /// Runs behind the gate, submitted by the calling thread on the first copy's CPUs. Every stream
  /// does `windows` + 1 times `loops` copies, with a time taken before, between and after: by
  /// events around calls of the copy engine, inside of a kernel by the kernel itself. The first
  /// window warms up and is left out. Times are since the copy's own start. With `shares`
  /// copy i does shares[i] times as many loops, so that copies of unequal length go on together;
  /// those in step have the same one. With `queues` copies of a copy engine that have the same
  /// number do their windows by turns, in the order of the copies; they are of one device. Throws
  /// `Error`.
  Boundaries run_gated(int windows, int loops, const std::vector<int>& shares = {},
                       const std::vector<int>& queues = {});

  /// Runs with the host's clock, a thread for each copy: `windows` + 1 copies, each
  /// from its call to the completed transfer. The first one warms up and is left out.
  /// Times are since a common start. With `shares` copy i does shares[i] times as many windows.
  Boundaries run_on_host_clock(int windows, const std::vector<int>& shares = {});

  /// Number of destination bytes that differ from their source. Blocks that no repetition has
  /// taken yet are copied before, once there has been one.
  std::size_t count_mismatches();

  /// Flips one bit of a destination: the next check must find it.
  void spoil(std::size_t copy, std::size_t byte);

  /// Whether copy number `copy` between two devices goes through host memory,
  /// because they cannot reach each other, or are not to.
  bool staged(std::size_t copy) const { return jobs_[copy].staged; }

 private:
  struct Job {
    CopySpec spec;
    std::shared_ptr<Buffer> source, destination;
    Stream stream;
    std::vector<Event> events;              // of a copy engine
    std::shared_ptr<DeviceMemory> times;    // of a kernel
    std::shared_ptr<DeviceMemory> counter;  // of wrong bytes, where a GPU counts them
    std::uint64_t seed;
    bool staged;
    BlockWalk walk;
    std::uint64_t repetitions = 0;  // so far; of a kernel, launches
    int share = 1;                  // of the loops or windows of a run
    std::size_t queue = 0;          // the copy whose stream is this one's in a run
    bool whole = false;             // whether all of the destination has been copied
    std::uint64_t read_loops = 0;   // of a kernel that only reads, in the last run
  };

  static int checker(const Job& job);
  static SmWork work_of(const Job& job) { return job.spec.sm ? job.spec.sm->work : SmWork::copy; }
  static void start_check(const Job& job, cudaStream_t stream);
  static std::size_t checked(const Job& job, unsigned long long counted);
  static void switch_off_peers(PeerAccessOff& off, const Job& job);
  void submit(Job& job, int windows, int loops) const;
  void launch(const Job& job, const SmShape& shape, int windows, int loops) const;
  void copy_bytes(const Job& job, ByteRange range) const;
  void copy_the_rest();
  void flush_caches() const;
  std::vector<SmWay> ways_of(const Job& job) const;
  const Job& carrier(const Job& job) const;
  bool is_carried(const Job& job) const { return &carrier(job) != &job; }
  cudaStream_t stream_of(const Job& job) const { return jobs_[job.queue].stream.get(); }
  void queue(Job& job, std::size_t boundary, int windows, int loops) const;
  void prepare(Job& job, std::size_t boundaries) const;
  void set_shares(const std::vector<int>& shares);
  void set_queues(const std::vector<int>& queues);
  double queued(int windows, int loops) const;
  std::vector<double> times_of(const Job& job, std::size_t boundaries) const;
  std::vector<double> run_job(Job& job, int windows, double (*now)()) const;
  void write_patterns() const;

  std::shared_ptr<const Topology> topology_;
  std::vector<Job> jobs_;
  std::shared_ptr<Gate> gate_;
};

}  // namespace lanescope
