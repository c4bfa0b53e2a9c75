#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/host_array.hpp"
#include "host/host_kernels.hpp"
#include "host/rendezvous.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// One copy by host threads: arrays of `bytes` bytes, read at one place, written at another.
struct HostCopySpec {
  PlaceSpec source;
  PlaceSpec destination;
  std::size_t bytes;
  Operation operation;
  std::vector<int> cpus;  ///< One thread for each entry, pinned to it.
};

/// Start and end of one repetition of one copy, in seconds on one clock.
struct Span {
  double begin;
  double end;
};

/// Threads and arrays for a set of copies that run at the same time.
///
/// Every thread works on its own part of the arrays. All threads start at one barrier,
/// those of one copy meet before each of its repetitions, and each thread stamps its own
/// begin and end, so that waking up is never part of a time. Several copies run free:
/// none waits for another, and one that is through goes on until all are.
class HostTeam {
 public:
  /// Allocates, fills and starts the threads; `device` pins what is to be pinned. Throws `Error`.
  HostTeam(std::shared_ptr<const Topology> topology, BufferPool& pool,
           std::vector<HostCopySpec> copies, int device);
  ~HostTeam();
  HostTeam(const HostTeam&) = delete;
  HostTeam& operator=(const HostTeam&) = delete;

  /// Runs all copies `repetitions` times, or more often while another copy is not through, or
  /// less often, but once, where that would take longer than `most_seconds`: others may have the
  /// CPUs. Result [copy][repetition]: the first thread's begin to the last thread's end.
  std::vector<std::vector<Span>> run(int repetitions, double most_seconds);

  /// Number of doubles in destination arrays that are not what they should be. Throws `Error`
  /// when memory no longer lies where it was asked for.
  std::size_t count_mismatches();

  /// How copy number `copy` writes: the faster of the two ways, found by trial where both are.
  Stores stores_of(std::size_t copy) const { return jobs_[copy].stores; }

 private:
  struct Job {  // one copy with its arrays
    HostCopySpec spec;
    HostArray a, b;
    std::optional<HostArray> c;
    Stores stores = Stores::cached;
    bool through = false;  // it has no repetitions left
    std::unique_ptr<Rendezvous> rendezvous = std::make_unique<Rendezvous>();
  };
  struct Worker {  // one thread's part of one copy
    std::size_t job;
    std::size_t first, count;  // doubles
    int cpu;
    std::vector<Span> spans;
    std::exception_ptr failure;  // to run on its CPU
    std::thread thread;
  };
  enum class Order { begin, spoil, run, quit };

  void serve(Worker& worker);
  void obey(Worker& worker, Order order);
  void send(Order order);
  void give(Order order);
  void fill() const;
  void repeat(Worker& worker);
  bool goes_on(Job& job, int repetition);
  void choose_stores();
  void require_bound() const;
  void require_placed() const;
  void start_workers();
  void end_workers();

  std::shared_ptr<const Topology> topology_;
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int repetitions_ = 0;
  double latest_ = 0;  // `host_seconds`
  Order order_ = Order::begin;
  std::atomic<int> turn_{0};          // grows with each order; workers sleep on it
  std::atomic<int> finished_{0};      // workers that are through with the order
  std::atomic<int> running_{0};       // copies that have repetitions left
  std::atomic<bool> stopped_{false};  // the order is not to be carried out to its end
  Rendezvous start_;                  // of all workers
  std::mutex mutex_;
  std::condition_variable all_finished_;
};

}  // namespace lanescope
