#include "lanescope/task_graph.hpp"
#include "lanescope/task_kernels.hpp"

namespace lanescope {

namespace {

class BusyTask : public TaskKernel {
 public:
  explicit BusyTask(std::uint64_t nanoseconds) : nanoseconds_(nanoseconds) {}

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
  MovingTask(int reads, int writes, bool reads_copies)
      : reads_(reads), writes_(writes), reads_copies_(reads_copies) {
    if (reads < 0 || reads > 3 || writes < 0 || writes > 3 || reads + writes == 0)
      throw Error("moving_task", 0, "bad numbers", "0 to 3 arrays are read, 0 to 3 are written");
  }

  void launch(const TaskMemory& memory, const TaskSpec& task, cudaStream_t stream) override {
    if (static_cast<std::size_t>(reads_) > memory.in.size() ||
        static_cast<std::size_t>(writes_) > memory.out.size())
      throw Error("moving_task", 0, "bad numbers", "there are not so many arrays");
    Moves moves;
    moves.reads = reads_;
    moves.writes = writes_;
    moves.count = static_cast<std::size_t>(task.count);
    const auto first = static_cast<std::size_t>(task.first);
    for (std::size_t i = 0; i < static_cast<std::size_t>(reads_); ++i)
      moves.in[i] = doubles(memory.in[i], reads_copies_, first, moves.count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(writes_); ++i)
      moves.out[i] = doubles(memory.out[i], false, first, moves.count);
    launch_moves(stream, moves);
  }

 private:
  static double* doubles(const TaskArray& array, bool copy, std::size_t first, std::size_t count) {
    if ((first + count) * sizeof(double) > array.bytes())
      throw Error("moving_task", 0, "bad numbers", "the kernel leaves its arrays");
    return static_cast<double*>(copy ? array.device() : array.host()) + first;
  }

  int reads_, writes_;
  bool reads_copies_;
};

}  // namespace

std::unique_ptr<TaskKernel> busy_task(std::uint64_t nanoseconds) {
  return std::make_unique<BusyTask>(nanoseconds);
}

std::unique_ptr<TaskKernel> moving_task(int reads, int writes, bool reads_copies) {
  return std::make_unique<MovingTask>(reads, writes, reads_copies);
}

}  // namespace lanescope
