#include "host/host_team.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>
#include <utility>

#include "cuda/host_clock.hpp"
#include "error.hpp"
#include "host/interruption.hpp"
#include "host/parallel.hpp"

namespace lanescope {

namespace {

constexpr int kTrialRepetitions = 2;
// One pass that takes longer tells enough.
constexpr double kLongTrialSeconds = 0.05;
constexpr double kNoTrialIsLonger = 60;
// What a thread writes between two looks whether it shall end, or fills for others: doubles.
constexpr std::size_t kStep = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kBetweenLooks{10};
// No result of an operation.
constexpr double kSpoilt = -1;
// A copy that goes on for the sake of others ends after so many, for its times are kept.
constexpr int kMostRepetitions = 1 << 16;

// Small integers: sums and products of them are exact, in any order.
double value_b(std::size_t i) {
  return static_cast<double>(i % 8191);
}
double value_c(std::size_t i) {
  return static_cast<double>(i % 127);
}

double* doubles(const HostArray& array) {
  return static_cast<double*>(array.data());
}

}  // namespace

HostTeam::HostTeam(std::shared_ptr<const Topology> topology, BufferPool& pool,
                   std::vector<HostCopySpec> copies, int device)
    : topology_(std::move(topology)) {
  for (auto& spec : copies) {
    if (spec.cpus.empty()) throw Error("HostTeam", 0, "no threads", "a copy has no CPU to run on");
    HostArray a(*topology_, pool, spec.destination, spec.bytes, device);
    HostArray b(*topology_, pool, spec.source, spec.bytes, device);
    std::optional<HostArray> c;
    if (reads_two(spec.operation)) c.emplace(*topology_, pool, spec.source, spec.bytes, device);
    jobs_.push_back({std::move(spec), std::move(a), std::move(b), std::move(c)});
  }
  start_workers();
  try {
    give(Order::begin);
    require_bound();
    fill();
    require_placed();
    choose_stores();
    give(Order::spoil);  // what trials wrote must not stand for what timed copies write
  } catch (...) {
    end_workers();
    throw;
  }
}

HostTeam::~HostTeam() {
  end_workers();
}

void HostTeam::require_bound() const {
  for (const auto& worker : workers_)
    if (worker->failure) std::rethrow_exception(worker->failure);
}

void HostTeam::require_placed() const {
  for (const auto& job : jobs_) {
    job.a.require_on_its_node();
    job.b.require_on_its_node();
    if (job.c) job.c->require_on_its_node();
  }
}

void HostTeam::start_workers() {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const auto& spec = jobs_[j].spec;
    const std::size_t count = spec.bytes / sizeof(double), threads = spec.cpus.size();
    // Parts begin on cache lines: two threads never write the same one.
    auto begin_of = [&](std::size_t t) {
      return t == threads ? count : count * t / threads / 8 * 8;
    };
    for (std::size_t t = 0; t < threads; ++t) {
      auto worker = std::make_unique<Worker>();
      worker->job = j;
      worker->first = begin_of(t);
      worker->count = begin_of(t + 1) - worker->first;
      worker->cpu = spec.cpus[t];
      workers_.push_back(std::move(worker));
    }
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker* raw = workers_[i].get();
    try {
      raw->thread = std::thread([this, raw] { serve(*raw); });
    } catch (const std::system_error& error) {
      workers_.resize(i);  // those that run must be told to end
      end_workers();
      throw Error("std::thread", error.code().value(), "no thread", error.what());
    }
  }
}

void HostTeam::end_workers() {
  send(Order::quit);
  for (auto& worker : workers_) worker->thread.join();
}

void HostTeam::serve(Worker& worker) {
  try {
    topology_->bind_this_thread({worker.cpu});
  } catch (const Error&) {
    worker.failure = std::current_exception();
  }
  for (int seen = 0;; ++seen) {
    turn_.wait(seen);
    const Order order = order_;
    if (order == Order::quit) return;
    obey(worker, order);
    if (finished_.fetch_add(1) + 1 < static_cast<int>(workers_.size())) continue;
    const std::lock_guard guard(mutex_);  // or it might be told between its look and its sleep
    all_finished_.notify_one();
  }
}

void HostTeam::send(Order order) {
  order_ = order;
  finished_ = 0;
  stopped_ = false;
  running_ = static_cast<int>(jobs_.size());
  start_.reset(static_cast<int>(workers_.size()));
  for (auto& job : jobs_) {
    job.rendezvous->reset(static_cast<int>(job.spec.cpus.size()));
    job.through = false;
  }
  turn_.fetch_add(1);
  turn_.notify_all();
}

void HostTeam::give(Order order) {
  send(order);
  std::exception_ptr interruption;
  std::unique_lock lock(mutex_);
  auto done = [&] { return finished_ == static_cast<int>(workers_.size()); };
  while (!all_finished_.wait_for(lock, kBetweenLooks, done)) {
    if (interruption) continue;
    try {
      throw_if_interrupted();
    } catch (...) {  // not before all have stopped: they work on what belongs to this
      interruption = std::current_exception();
      stopped_ = true;
    }
  }
  if (interruption) std::rethrow_exception(interruption);
}

/// By whoever has a CPU: one thread would take longer to fill than a short measurement lasts.
void HostTeam::fill() const {
  for (const Job& job : jobs_) {
    double *a = doubles(job.a), *b = doubles(job.b), *c = job.c ? doubles(*job.c) : nullptr;
    in_parallel(job.spec.bytes / sizeof(double), kStep, [&](std::size_t first, std::size_t last) {
      std::fill(a + first, a + last, kSpoilt);
      for (std::size_t i = first; i < last; ++i) b[i] = value_b(i);
      if (c == nullptr) return;
      for (std::size_t i = first; i < last; ++i) c[i] = value_c(i);
    });
  }
}

void HostTeam::obey(Worker& worker, Order order) {
  if (order == Order::run) repeat(worker);
  if (order != Order::spoil) return;
  // By the thread itself, so that small arrays are in its caches.
  double* a = doubles(jobs_[worker.job].a) + worker.first;
  for (std::size_t done = 0; done < worker.count && !stopped_; done += kStep)
    std::fill_n(a + done, std::min(kStep, worker.count - done), kSpoilt);
}

void HostTeam::repeat(Worker& worker) {
  Job& job = jobs_[worker.job];
  double *a = doubles(job.a) + worker.first, *b = doubles(job.b) + worker.first;
  const double* c = job.c ? doubles(*job.c) + worker.first : nullptr;
  worker.spans.clear();
  worker.spans.reserve(static_cast<std::size_t>(repetitions_));
  start_.meet(0, [] { return true; });
  for (int r = 0; job.rendezvous->meet(r, [&] { return goes_on(job, r); }); ++r) {
    const double begin = host_seconds();
    run_kernel(job.spec.operation, job.stores, a, b, c, worker.count);
    worker.spans.push_back({begin, host_seconds()});
  }
}

/// Whether a copy does repetition number `repetition`; asked once for each.
bool HostTeam::goes_on(Job& job, int repetition) {
  if (stopped_) return false;
  const bool late = repetition > 0 && host_seconds() > latest_;
  if (!late && repetition < repetitions_) return true;
  if (!std::exchange(job.through, true)) running_.fetch_sub(1);
  return !late && running_ > 0 && repetition < kMostRepetitions;
}

std::vector<std::vector<Span>> HostTeam::run(int repetitions, double most_seconds) {
  repetitions_ = repetitions;
  latest_ = host_seconds() + most_seconds;
  give(Order::run);
  std::vector<std::vector<Span>> result(jobs_.size());
  for (const auto& worker : workers_) {
    auto& spans = result[worker->job];
    if (spans.empty()) {
      spans = worker->spans;
      continue;
    }
    for (std::size_t r = 0; r < spans.size(); ++r) {
      spans[r].begin = std::min(spans[r].begin, worker->spans[r].begin);
      spans[r].end = std::max(spans[r].end, worker->spans[r].end);
    }
  }
  return result;
}

std::size_t HostTeam::count_mismatches() {
  require_placed();  // the kernel may have moved what could not be bound
  std::atomic<std::size_t> sum = 0;
  for (const Job& job : jobs_) {
    const double* a = doubles(job.a);
    in_parallel(job.spec.bytes / sizeof(double), kStep, [&](std::size_t first, std::size_t last) {
      std::size_t wrong = 0;
      for (std::size_t i = first; i < last; ++i)
        wrong += a[i] != result_of(job.spec.operation, value_b(i), value_c(i));
      sum += wrong;
    });
  }
  return sum;
}

void HostTeam::choose_stores() {
  if (!has_streaming_stores()) return;
  auto fastest = [&](Stores stores) {
    for (auto& job : jobs_) job.stores = stores;
    std::vector<double> best(jobs_.size(), std::numeric_limits<double>::infinity());
    for (int trial = 0; trial < kTrialRepetitions; ++trial) {
      const auto found = run(1, kNoTrialIsLonger);
      for (std::size_t j = 0; j < jobs_.size(); ++j)
        for (const auto& span : found[j]) best[j] = std::min(best[j], span.end - span.begin);
      if (std::ranges::max(best) > kLongTrialSeconds) break;
    }
    return best;
  };
  const auto cached = fastest(Stores::cached), streaming = fastest(Stores::streaming);
  for (std::size_t j = 0; j < jobs_.size(); ++j)
    jobs_[j].stores = streaming[j] < cached[j] ? Stores::streaming : Stores::cached;
}

}  // namespace lanescope
