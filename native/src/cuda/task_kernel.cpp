#include <string>

#include "cuda/task_graph.hpp"
#include "cuda/task_kernels.hpp"

namespace lanescope {

namespace {

// A GPU does not stop a kernel whose process was killed: none may keep it for long.
constexpr std::uint64_t kMostBusyNs = 10'000'000'000;
constexpr int kMostWork = 100'000;

class BusyTask : public TaskKernel {
 public:
  explicit BusyTask(std::uint64_t nanoseconds) : nanoseconds_(nanoseconds) {
    if (nanoseconds > kMostBusyNs)
      throw Error("busy_task", 0, "bad numbers", "a kernel keeps the GPU busy for 10 s at most");
  }

  void require_fitting(const TaskMemory&, const TaskSpec&) const override {}

  void launch(const TaskMemory&, const TaskSpec&, cudaStream_t stream) override {
    if (nanoseconds_ == 0)
      launch_nothing(stream);
    else
      launch_busy(stream, nanoseconds_);
  }

 private:
  std::uint64_t nanoseconds_;
};

class MovingTask : public TaskKernel {
 public:
  MovingTask(int reads, int writes, bool reads_copies, int work)
      : reads_(reads), writes_(writes), reads_copies_(reads_copies), work_(work) {
    if (reads < 0 || reads > kMostMoved || writes < 0 || writes > kMostMoved || reads + writes == 0)
      throw Error("moving_task", 0, "bad numbers",
                  "a kernel reads 0 to 3 arrays and writes 0 to 3, and one at least");
    if (work < 0 || work > kMostWork)
      throw Error("moving_task", 0, "bad numbers",
                  "a kernel makes 0 to " + std::to_string(kMostWork) + " steps for each element");
  }

  void require_fitting(const TaskMemory& memory, const TaskSpec& task) const override {
    if (static_cast<std::size_t>(reads_) > memory.in.size() ||
        static_cast<std::size_t>(writes_) > memory.out.size())
      throw_bad("a kernel reads " + std::to_string(reads_) + " arrays and writes " +
                std::to_string(writes_) + ", of which there are " +
                std::to_string(memory.in.size()) + " and " + std::to_string(memory.out.size()));
    if (memory.pageable && (writes_ > 0 || !reads_copies_))
      throw_bad("kernels read and write pinned memory in place, and this is pageable");
    if (task.first < 0 || task.count < 0)
      throw_bad("a kernel moves " + std::to_string(task.count) + " doubles from " +
                std::to_string(task.first) + " on; neither may be negative");
    const auto end = static_cast<std::size_t>(task.first) + static_cast<std::size_t>(task.count);
    for (int i = 0; i < reads_; ++i) require_room(memory.in[static_cast<std::size_t>(i)], end);
    for (int i = 0; i < writes_; ++i) require_room(memory.out[static_cast<std::size_t>(i)], end);
  }

  void launch(const TaskMemory& memory, const TaskSpec& task, cudaStream_t stream) override {
    Moves moves;
    moves.reads = reads_;
    moves.writes = writes_;
    moves.work = work_;
    moves.count = static_cast<std::size_t>(task.count);
    const auto first = static_cast<std::size_t>(task.first);
    for (std::size_t i = 0; i < static_cast<std::size_t>(reads_); ++i)
      moves.in[i] = doubles(memory.in[i], reads_copies_, first);
    for (std::size_t i = 0; i < static_cast<std::size_t>(writes_); ++i)
      moves.out[i] = doubles(memory.out[i], false, first);
    launch_moves(stream, moves);
  }

 private:
  [[noreturn]] static void throw_bad(const std::string& what) {
    throw Error("moving_task", 0, "bad tasks", what);
  }

  static void require_room(const TaskArray& array, std::size_t end) {
    if (end * sizeof(double) > array.bytes())
      throw_bad("a kernel moves doubles up to " + std::to_string(end) + ", and an array has " +
                std::to_string(array.bytes() / sizeof(double)));
  }

  static double* doubles(const TaskArray& array, bool copy, std::size_t first) {
    return static_cast<double*>(copy ? array.device() : array.host()) + first;
  }

  int reads_, writes_;
  bool reads_copies_;
  int work_;
};

}  // namespace

std::unique_ptr<TaskKernel> busy_task(std::uint64_t nanoseconds) {
  return std::make_unique<BusyTask>(nanoseconds);
}

std::unique_ptr<TaskKernel> moving_task(int reads, int writes, bool reads_copies, int work) {
  return std::make_unique<MovingTask>(reads, writes, reads_copies, work);
}

}  // namespace lanescope
