#include "cuda/task_graph.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cuda/host_clock.hpp"
#include "cuda/task_kernels.hpp"

namespace lanescope {

namespace {

// As many as the device takes without a queue of its own kind running full.
constexpr int kMostStreams = 1024;

[[noreturn]] void throw_bad(const std::string& what) {
  throw Error("TaskGraph", 0, "bad tasks", what);
}

[[noreturn]] void throw_bad(std::size_t place, const std::string& what) {
  throw_bad("task " + std::to_string(place) + " " + what);
}

/// An event is made on the current device, and can be recorded on that alone.
Event event_on(int device) {
  const ScopedDevice scope(device);
  return Event();
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
      begin_(event_on(memory_->device)),
      end_(event_on(memory_->device)),
      gate_(memory_->device) {
  require_fitting();
  const ScopedDevice scope(memory_->device);
  preload_task_kernels();
  require_streams();
}

void TaskGraph::require_fitting() const {
  if (tasks_.empty()) throw_bad("a graph needs a task or more");
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const TaskSpec& task = tasks_[place];
    if (task.stream < 0 || task.stream >= kMostStreams)
      throw_bad(place, "is for stream " + std::to_string(task.stream) + "; there are 0 to " +
                           std::to_string(kMostStreams - 1));
    for (const int before : task.after)
      if (before < 0 || static_cast<std::size_t>(before) >= place)
        throw_bad(place,
                  "waits for task " + std::to_string(before) + ", which does not stand before it");
    if (task.kind == TaskKind::kernel) {
      kernel_->require_fitting(*memory_, task);
      continue;
    }
    const auto& arrays = task.kind == TaskKind::h2d ? memory_->in : memory_->out;
    if (task.array < 0 || static_cast<std::size_t>(task.array) >= arrays.size())
      throw_bad(place, "copies array " + std::to_string(task.array) +
                           "; of its direction there are " + std::to_string(arrays.size()));
    const std::size_t room = arrays[static_cast<std::size_t>(task.array)].bytes();
    if (task.offset > room || task.bytes > room - task.offset)
      throw_bad(place, "copies " + std::to_string(task.bytes) + " B from byte " +
                           std::to_string(task.offset) + " on, and its array has " +
                           std::to_string(room) + " B");
  }
}

/// A call that copies pageable memory returns when the copy has been made, or nearly.
void TaskGraph::require_queueing() const {
  const auto copies = [](const TaskSpec& task) { return task.kind != TaskKind::kernel; };
  if (memory_->pageable && std::any_of(tasks_.begin(), tasks_.end(), copies))
    throw_bad("copies of pageable memory cannot be held back: their calls wait for them");
}

void TaskGraph::require_streams() {
  int most = 0;
  for (const TaskSpec& task : tasks_) {
    most = std::max(most, task.stream);
    for (const int before : task.after) {
      auto& end = ends_[static_cast<std::size_t>(before)];
      if (!end) end.emplace(Timing::none);
    }
  }
  stream_count_ = static_cast<std::size_t>(most) + 1;
  memory_->streams->require(stream_count_);
}

void TaskGraph::submit() {
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const TaskSpec& task = tasks_[place];
    const Stream& stream = memory_->streams->at(static_cast<std::size_t>(task.stream));
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

std::vector<const Stream*> TaskGraph::all_streams() const {
  std::vector<const Stream*> all{&main_};
  for (std::size_t i = 0; i < stream_count_; ++i) all.push_back(&memory_->streams->at(i));
  return all;
}

TaskTimes TaskGraph::run_once() {
  const auto begin = HostClock::now();
  submit();
  const double called = seconds_since(begin);
  // Without an end to the waiting, as programs wait: looking at each stream in turn would be
  // part of what is timed. A GPU that does not answer has shown it in the first run.
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return {called, seconds_since(begin)};
}

double TaskGraph::run_held_once() {
  gate_.run({&main_}, [this] {
    const TaskStreams& streams = *memory_->streams;
    record(begin_, main_);
    for (std::size_t i = 0; i < stream_count_; ++i) wait(streams.at(i), begin_);
    submit();
    for (std::size_t i = 0; i < stream_count_; ++i) {
      record(streams.end_of(i), streams.at(i));
      wait(main_, streams.end_of(i));
    }
    record(end_, main_);
  });
  return end_.seconds_since(begin_);
}

void TaskGraph::warm_up() {
  if (warm_) return;
  submit();
  wait_for_all(all_streams(), kHangTimeoutS);
  warm_ = true;
}

template <typename Once>
auto TaskGraph::repeated(int repetitions, Once once) {
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(memory_->device);
  std::vector<decltype(once())> all;
  try {
    warm_up();
    for (int i = 0; i < repetitions; ++i) all.push_back(once());
  } catch (...) {
    // What was handed over before the failure must not touch memory that is freed or used by
    // others next. The first failure is the one to tell.
    static_cast<void>(drain(all_streams(), kHangTimeoutS));
    throw;
  }
  return all;
}

std::vector<TaskTimes> TaskGraph::run(int repetitions, bool warm) {
  if (!warm) warm_ = true;
  return repeated(repetitions, [this] { return run_once(); });
}

std::vector<double> TaskGraph::run_held(int repetitions) {
  require_queueing();
  return repeated(repetitions, [this] { return run_held_once(); });
}

}  // namespace lanescope
