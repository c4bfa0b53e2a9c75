#include "lanescope/task_graph.hpp"

#include <algorithm>
#include <utility>

#include "lanescope/host_clock.hpp"
#include "lanescope/task_kernels.hpp"

namespace lanescope {

namespace {

// As many as the device takes without a queue of its own kind running full.
constexpr int kMostStreams = 1024;

[[noreturn]] void throw_bad(const char* what) {
  throw Error("TaskGraph", 0, "bad tasks", what);
}

void wait(const Stream& waiting, const Event& end) {
  check(cudaStreamWaitEvent(waiting.get(), end.get(), 0), "cudaStreamWaitEvent");
}

void record(const Event& event, const Stream& stream) {
  check(cudaEventRecord(event.get(), stream.get()), "cudaEventRecord");
}

}  // namespace

TaskGraph::TaskGraph(std::shared_ptr<const Topology> topology,
                     std::shared_ptr<const TaskMemory> memory, std::vector<TaskSpec> tasks,
                     std::unique_ptr<TaskKernel> kernel, std::vector<int> cpus)
    : topology_(std::move(topology)),
      memory_(std::move(memory)),
      tasks_(std::move(tasks)),
      kernel_(std::move(kernel)),
      cpus_(std::move(cpus)),
      ends_(tasks_.size()),
      main_(memory_->device),
      gate_(memory_->device) {
  require_fitting();
  const ScopedDevice scope(memory_->device);
  preload_task_kernels();
  make_streams();
}

void TaskGraph::require_fitting() const {
  if (tasks_.empty()) throw_bad("there is none");
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const TaskSpec& task = tasks_[place];
    if (task.stream < 0 || task.stream >= kMostStreams) throw_bad("streams are 0 to 1023");
    for (const int before : task.after)
      if (before < 0 || static_cast<std::size_t>(before) >= place)
        throw_bad("a task waits for one that does not stand before it");
    if (task.kind == TaskKind::kernel) {
      if (kernel_ == nullptr) throw_bad("there is no kernel to launch");
      continue;
    }
    const auto& arrays = task.kind == TaskKind::h2d ? memory_->in : memory_->out;
    if (task.array < 0 || static_cast<std::size_t>(task.array) >= arrays.size())
      throw_bad("a copy of an array that is not there");
    const std::size_t room = arrays[static_cast<std::size_t>(task.array)].bytes();
    if (task.offset > room || task.bytes > room - task.offset) throw_bad("a copy leaves its array");
  }
}

void TaskGraph::make_streams() {
  int most = 0;
  for (const TaskSpec& task : tasks_) {
    most = std::max(most, task.stream);
    for (const int before : task.after) {
      auto& end = ends_[static_cast<std::size_t>(before)];
      if (!end) end.emplace(Timing::none);
    }
  }
  for (int i = 0; i <= most; ++i) {
    streams_.emplace_back(memory_->device);
    stream_ends_.emplace_back(Timing::none);
  }
}

void TaskGraph::submit() {
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const TaskSpec& task = tasks_[place];
    const Stream& stream = streams_[static_cast<std::size_t>(task.stream)];
    for (const int before : task.after) wait(stream, *ends_[static_cast<std::size_t>(before)]);
    if (task.kind == TaskKind::kernel)
      kernel_->launch(*memory_, task, stream.get());
    else
      copy(task, stream.get());
    if (ends_[place]) record(*ends_[place], stream);
  }
}

void TaskGraph::copy(const TaskSpec& task, cudaStream_t stream) const {
  const bool down = task.kind == TaskKind::h2d;
  const TaskArray& array =
      (down ? memory_->in : memory_->out)[static_cast<std::size_t>(task.array)];
  auto* host = static_cast<char*>(array.host()) + task.offset;
  auto* device = static_cast<char*>(array.device()) + task.offset;
  void* to = down ? device : host;
  const void* from = down ? host : device;
  check(cudaMemcpyAsync(to, from, task.bytes,
                        down ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
}

TaskTimes TaskGraph::run_once() {
  const auto begin = HostClock::now();
  submit();
  const double called = seconds_since(begin);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return {called, seconds_since(begin)};
}

double TaskGraph::run_held_once() {
  gate_.run({&main_}, [this] {
    record(begin_, main_);
    for (const Stream& stream : streams_) wait(stream, begin_);
    submit();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      record(stream_ends_[i], streams_[i]);
      wait(main_, stream_ends_[i]);
    }
    record(end_, main_);
  });
  return end_.seconds_since(begin_);
}

void TaskGraph::warm_up() {
  if (!warm_) static_cast<void>(run_once());
  warm_ = true;
}

std::vector<TaskTimes> TaskGraph::run(int repetitions) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(memory_->device);
  warm_up();
  std::vector<TaskTimes> times;
  for (int i = 0; i < repetitions; ++i) times.push_back(run_once());
  return times;
}

std::vector<double> TaskGraph::run_held(int repetitions) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(memory_->device);
  warm_up();
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(run_held_once());
  return seconds;
}

}  // namespace lanescope
