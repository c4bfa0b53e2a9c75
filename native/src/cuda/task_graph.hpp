#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/gate.hpp"
#include "cuda/task_memory.hpp"
#include "workload/grid_kernels.hpp"

namespace lanescope {

enum class TaskKind { h2d, d2h, kernel };

/// One call: a copy of a part of an array, or a kernel.
struct TaskSpec {
  TaskKind kind = TaskKind::kernel;
  int stream = 0;
  int array = 0;                      ///< Of a copy's direction.
  std::size_t offset = 0, bytes = 0;  ///< Of a copy.
  int first = 0, count = 0;  ///< Of a kernel: the levels, or the doubles, that it is about.
  std::vector<int> after;    ///< Earlier tasks that must have ended.
};

/// What the kernels of a graph do.
class TaskKernel {
 public:
  virtual ~TaskKernel() = default;
  /// Throws `Error` where it cannot do a task with this memory.
  virtual void require_fitting(const TaskMemory& memory, const TaskSpec& task) const = 0;
  /// Throws `Error`.
  virtual void launch(const TaskMemory& memory, const TaskSpec& task, cudaStream_t stream) = 0;
};

/// Keeps the device busy for so long, 10 s at most; for 0, does nothing. Throws `Error`.
std::unique_ptr<TaskKernel> busy_task(std::uint64_t nanoseconds);

/// Reads so many of the arrays in and writes so many of those out: in the host's memory, or, with
/// `reads_copies`, reads what was copied to the device. For each element it makes `work` steps of
/// computing first. Throws `Error`.
std::unique_ptr<TaskKernel> moving_task(int reads, int writes, bool reads_copies, int work = 0);

/// A kernel on a grid, whose arrays lie in the device's or in the host's memory.
struct GridTask {
  GridSpec spec;
  bool maps_in = false, maps_out = false;
  bool columns = false;
  std::vector<double> per_level;  ///< See `GridArrays`.
  std::vector<int> deepest;
};
/// Throws `Error` where the memory is too small for the grid.
std::unique_ptr<TaskKernel> grid_task(const TaskMemory& memory, const GridTask& grid);

/// Times of one run on the host's clock.
struct TaskTimes {
  double call_seconds;  ///< Until the last call had returned.
  double seconds;       ///< Until the host had seen the end of all.
};

/// Copies and kernels with what they wait for, handed over by one host thread.
class TaskGraph {
 public:
  /// Throws `Error` where a task does not fit the memory or waits for a later one.
  TaskGraph(std::shared_ptr<const Topology> topology, std::shared_ptr<const TaskMemory> memory,
            std::vector<TaskSpec> tasks, std::unique_ptr<TaskKernel> kernel, std::vector<int> cpus);

  /// Hands all over and waits, so many times, after a first one that does not count. Without it,
  /// if not `warm`, the copied memory may be in no cache. Throws `Error`, when all that was handed
  /// over has ended.
  std::vector<TaskTimes> run(int repetitions, bool warm = true);

  /// The same, but nothing begins before all is handed over: what the device alone takes, in
  /// seconds, by its own clock. Throws `Error` where a copy of pageable memory would wait for
  /// what is held back, too.
  std::vector<double> run_held(int repetitions);

 private:
  void require_fitting() const;
  void require_queueing() const;
  void require_streams();
  void submit();
  void copy(const TaskSpec& task, cudaStream_t stream) const;
  std::vector<const Stream*> all_streams() const;
  template <typename Once>
  auto repeated(int repetitions, Once once);
  void warm_up();
  TaskTimes run_once();
  double run_held_once();

  std::shared_ptr<const Topology> topology_;
  std::shared_ptr<const TaskMemory> memory_;
  std::vector<TaskSpec> tasks_;
  std::unique_ptr<TaskKernel> kernel_;
  std::vector<int> cpus_;
  std::size_t stream_count_ = 0;            // of those of the memory
  std::vector<std::optional<Event>> ends_;  // of the tasks that others wait for
  Stream main_;
  Event begin_, end_;
  Gate gate_;
  bool warm_ = false;
};

}  // namespace lanescope
