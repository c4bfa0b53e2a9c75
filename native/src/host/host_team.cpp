#include "lanescope/host_team.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "lanescope/error.hpp"

namespace lanescope {

namespace {

constexpr int kTrialRepetitions = 2;
// A waiting thread gives its CPU away now and then, or two threads that share one
// would wait for each other a whole time slice long.
constexpr int kSpinsBeforeYield = 4096;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// Small integers: sums and products of them are exact, in any order.
double value_b(std::size_t i) {
  return static_cast<double>(i % 8191);
}
double value_c(std::size_t i) {
  return static_cast<double>(i % 127);
}

double* doubles(const HostBuffer& buffer) {
  return static_cast<double*>(buffer.data());
}

}  // namespace

HostTeam::HostTeam(std::shared_ptr<const Topology> topology, std::vector<HostCopySpec> copies)
    : topology_(std::move(topology)) {
  for (auto& spec : copies) {
    if (spec.cpus.empty()) throw Error("HostTeam", 0, "no threads", "a copy has no CPU to run on");
    const std::size_t third = spec.operation == Operation::triad ? spec.bytes : 1;
    HostBuffer a(*topology_, spec.bytes, spec.destination_node);
    HostBuffer b(*topology_, spec.bytes, spec.source_node);
    HostBuffer c(*topology_, third, spec.source_node);
    jobs_.push_back({std::move(spec), std::move(a), std::move(b), std::move(c), Stores::cached});
  }
  start_workers();
  give(Order::fill);
  choose_stores();
}

HostTeam::~HostTeam() {
  end_workers();
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
  give(Order::quit);
  for (auto& worker : workers_) worker->thread.join();
}

void HostTeam::serve(Worker& worker) {
  try {
    topology_->bind_this_thread({worker.cpu});
  } catch (const Error&) {
    // Outside the CPUs that this process may use: it runs where it is allowed to.
  }
  for (int seen = 0;; ++seen) {
    turn_.wait(seen);
    const Order order = order_;
    obey(worker, order);
    finished_.fetch_add(1);
    finished_.notify_one();
    if (order == Order::quit) return;
  }
}

void HostTeam::give(Order order) {
  order_ = order;
  finished_ = 0;
  barrier_ = 0;
  turn_.fetch_add(1);
  turn_.notify_all();
  const int all = static_cast<int>(workers_.size());
  for (int done = finished_; done < all; done = finished_) finished_.wait(done);
}

void HostTeam::obey(Worker& worker, Order order) {
  Job& job = jobs_[worker.job];
  const Operation operation = job.spec.operation;
  double *a = doubles(job.a) + worker.first, *b = doubles(job.b) + worker.first;
  double* c = operation == Operation::triad ? doubles(job.c) + worker.first : nullptr;
  if (order == Order::fill) {
    for (std::size_t i = 0; i < worker.count; ++i) {
      a[i] = -1;
      b[i] = value_b(worker.first + i);
      if (c != nullptr) c[i] = value_c(worker.first + i);
    }
  } else if (order == Order::run) {
    const int team = static_cast<int>(workers_.size());
    worker.spans.clear();
    worker.spans.reserve(static_cast<std::size_t>(repetitions_));
    for (int r = 0; r < repetitions_; ++r) {
      wait_for_all(barrier_, team * (r + 1));
      const double begin = now();
      run_kernel(operation, job.stores, a, b, c, worker.count);
      worker.spans.push_back({begin, now()});
    }
  } else if (order == Order::check) {
    worker.mismatches = 0;
    for (std::size_t i = 0; i < worker.count; ++i) {
      double expected = value_b(worker.first + i);
      if (c != nullptr) expected += kTriadScalar * value_c(worker.first + i);
      worker.mismatches += a[i] != expected;
    }
  }
}

void HostTeam::wait_for_all(std::atomic<int>& arrived, int target) {
  arrived.fetch_add(1);
  for (int spins = 0; arrived.load(std::memory_order_acquire) < target; ++spins)
    if (spins == kSpinsBeforeYield) std::this_thread::yield(), spins = 0;
}

std::vector<std::vector<Span>> HostTeam::run(int repetitions) {
  repetitions_ = repetitions;
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
  give(Order::check);
  std::size_t sum = 0;
  for (const auto& worker : workers_) sum += worker->mismatches;
  return sum;
}

void HostTeam::choose_stores() {
  if (!has_streaming_stores()) return;
  auto fastest = [&](Stores stores) {
    for (auto& job : jobs_) job.stores = stores;
    std::vector<double> best;
    for (const auto& spans : run(kTrialRepetitions)) {
      double least = spans.front().end - spans.front().begin;
      for (const auto& span : spans) least = std::min(least, span.end - span.begin);
      best.push_back(least);
    }
    return best;
  };
  const auto cached = fastest(Stores::cached), streaming = fastest(Stores::streaming);
  for (std::size_t j = 0; j < jobs_.size(); ++j)
    jobs_[j].stores = streaming[j] < cached[j] ? Stores::streaming : Stores::cached;
}

}  // namespace lanescope
