#include "cuda/copy_set.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "cuda/host_clock.hpp"
#include "cuda/kernels.hpp"
#include "cuda/peer.hpp"
#include "host/interruption.hpp"
#include "pattern.hpp"

namespace lanescope {

namespace {

constexpr std::uint64_t kSourceSeed = 0x5EED0000;
constexpr std::uint64_t kSpoiltSeed = 0xBAD0000;
constexpr double kFillTimeoutS = 60;
// A staged copy is cut up by the driver, into pieces that nobody knows the number of and that
// may wait for each other: the queue behind a gate might fill up.
constexpr double kStagedPatienceS = 0.05;
// The driver's queue ends near 1,000 entries. What is more is queued while the first copies run,
// by a thread that is faster than they are.
constexpr double kMostQueued = 900;
constexpr double kFullPatienceS = 0.02;
// Windows that a kernel can take the time of; more do not wait behind a gate anyway.
constexpr std::size_t kMostBoundaries = 1024;

bool must_stage(const CopySpec& spec) {
  const bool between_devices = spec.source.memory == Memory::device &&
                               spec.destination.memory == Memory::device &&
                               spec.source.index != spec.destination.index;
  const bool is_mapped = spec.source.address != 0 || spec.destination.address != 0;
  if (!between_devices || is_mapped) return false;
  if (spec.route == Route::staged) return true;
  const bool forward = enable_peer(spec.source.index, spec.destination.index);
  const bool backward = enable_peer(spec.destination.index, spec.source.index);
  if (spec.sm && !(forward && backward))
    throw Error("cudaDeviceCanAccessPeer", 0, "no peer access",
                "a kernel cannot reach the other GPU's memory");
  return !forward || !backward;
}

/// A copy that goes in step with another needs one before it that is alike and goes alone.
void require_step(const std::vector<CopySpec>& copies, std::size_t number) {
  const int with = copies[number].sm ? copies[number].sm->in_step_with : -1;
  if (with < 0) return;
  const auto first = static_cast<std::size_t>(with);
  const bool alike = first < number && copies[first].sm && copies[first].sm->in_step_with < 0 &&
                     copies[first].bytes == copies[number].bytes &&
                     copies[first].device == copies[number].device;
  if (!alike) throw Error("CopySet", 0, "not in step", "the copies are not alike");
}

/// Starts work in streams and waits for all of it, also where starting some has failed: the
/// memory that it works on may then be lent to others. Throws `Error`.
template <typename Start>
void finish_all(const std::vector<Stream>& streams, Start start) {
  auto started = [&] {
    std::vector<const Stream*> pointers;
    for (const Stream& stream : streams) pointers.push_back(&stream);
    return pointers;
  };
  try {
    start();
  } catch (...) {
    static_cast<void>(drain(started(), kFillTimeoutS));
    throw;
  }
  wait_for_all(started(), kFillTimeoutS);
}

WindowTimes window_times(const DeviceMemory& memory) {
  auto* nanoseconds = static_cast<std::uint64_t*>(memory.data());
  return {nanoseconds, reinterpret_cast<unsigned*>(nanoseconds + kMostBoundaries)};
}

constexpr std::size_t kSumBytes = sizeof(std::uint64_t);
constexpr std::size_t kTimesBytes = kMostBoundaries * (sizeof(std::uint64_t) + sizeof(unsigned));
static_assert(kTimesBytes <= BufferPool::kSmallBytes);

}  // namespace

CopySet::CopySet(std::shared_ptr<const Topology> topology, BufferPool& pool,
                 std::vector<CopySpec> copies)
    : topology_(std::move(topology)), gate_(pool.lend_gate(copies.at(0).device)) {
  const ScopedBinding binding(*topology_, copies[0].cpus);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    throw_if_interrupted();  // pinning takes a while
    const CopySpec& spec = copies[i];
    require_step(copies, i);
    // Pinning takes a GPU, too: not the first, which may be another's, but this copy's.
    const ScopedDevice scope(spec.device);
    const bool staged = must_stage(spec);
    preload_gate();
    if (spec.sm) preload_sm_copy();
    Job job{spec,
            pool.lend(spec.source, spec.walk.span_bytes),
            pool.lend(spec.destination, std::max(spec.walk.span_bytes, kSumBytes)),
            Stream(spec.device),
            {},
            spec.sm ? pool.lend_small(spec.device) : nullptr,
            nullptr,
            kSourceSeed + i,
            staged,
            walk_over(spec.walk.pattern, spec.walk.span_bytes / spec.bytes, spec.bytes)};
    job.queue = i;
    if (!job.destination->is_filled_by_host()) job.counter = pool.lend_small(checker(job));
    jobs_.push_back(std::move(job));
  }
  write_patterns();
}

/// Fills all sources and spoils all destinations, on all devices at the same time. The host
/// goes first: not every system lets it touch managed memory while a kernel runs.
void CopySet::write_patterns() const {
  std::vector<Stream> streams;
  bool by_host = true;
  auto start = [&](const Buffer& buffer, const Job& job, std::uint64_t seed) {
    if (buffer.is_filled_by_host() != by_host) return;
    if (by_host) return fill_pattern(buffer.data(), job.spec.walk.span_bytes, seed);
    const PlaceSpec place = buffer.place();
    streams.emplace_back(place.memory == Memory::device ? place.index : job.spec.device);
    const ScopedDevice scope(streams.back().device());
    launch_fill(streams.back().get(), buffer.data(), job.spec.walk.span_bytes, seed);
  };
  auto start_all = [&] {
    for (const Job& job : jobs_) {
      start(*job.source, job, job.seed);
      start(*job.destination, job, kSpoiltSeed);
    }
  };
  start_all();
  by_host = false;
  finish_all(streams, start_all);
}

void CopySet::submit(Job& job, int windows, int loops) const {
  if (job.spec.sm) {
    launch(job, *job.spec.sm, windows, loops);
    ++job.repetitions;
    job.read_loops = static_cast<std::uint64_t>(windows) * static_cast<std::uint64_t>(loops);
    if (windows * loops >= job.spec.sm->chunk_repeats) job.whole = true;
    return;
  }
  for (int i = 0; i < windows * loops; ++i) {
    const std::size_t begin = next_offset(job.walk);
    ++job.repetitions;
    copy_bytes(job, {begin, begin + job.spec.bytes});
  }
}

void CopySet::launch(const Job& job, const SmShape& shape, int windows, int loops) const {
  launch_sm_copy(job.stream.get(), job.spec.device, ways_of(job), job.spec.bytes, shape, windows,
                 loops, window_times(*job.times));
}

/// The ways that a kernel goes: its own copy's, and that of the copy in step with it.
std::vector<SmWay> CopySet::ways_of(const Job& job) const {
  std::vector<SmWay> ways;
  for (const Job& other : jobs_)
    if (&carrier(other) == &job) ways.push_back({other.destination->data(), other.source->data()});
  return ways;
}

/// The job whose kernel or copy engine does a job: itself, unless it goes in step with another.
const CopySet::Job& CopySet::carrier(const Job& job) const {
  const int number = job.spec.sm ? job.spec.sm->in_step_with : -1;
  return number < 0 ? job : jobs_[static_cast<std::size_t>(number)];
}

/// Makes ready what takes the times of a run.
void CopySet::prepare(Job& job, std::size_t boundaries) const {
  const ScopedDevice scope(job.spec.device);
  if (job.spec.sm) {
    check(cudaMemsetAsync(job.times->data(), 0, kTimesBytes, job.stream.get()), "cudaMemsetAsync");
    if (work_of(job) == SmWork::read)
      check(cudaMemsetAsync(job.destination->data(), 0, kSumBytes, job.stream.get()),
            "cudaMemsetAsync");
    return;
  }
  while (job.events.size() < boundaries) job.events.emplace_back();
}

/// Queues the window that ends at a boundary. A kernel does all windows at once.
void CopySet::queue(Job& job, std::size_t boundary, int windows, int loops) const {
  const ScopedDevice scope(job.spec.device);
  if (job.spec.sm) {
    if (boundary == 0 && !is_carried(job)) submit(job, windows, loops);
    return;
  }
  if (boundary > 0) submit(job, 1, loops);
  check(cudaEventRecord(job.events[boundary].get(), stream_of(job)), "cudaEventRecord");
}

void CopySet::set_shares(const std::vector<int>& shares) {
  if (!shares.empty() && shares.size() != jobs_.size())
    throw Error("CopySet", 0, "shares", "one share for each copy");
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    jobs_[i].share = shares.empty() ? 1 : std::max(1, shares[i]);
}

/// Gives each copy the stream of the first one of its queue; without queues its own.
void CopySet::set_queues(const std::vector<int>& queues) {
  if (!queues.empty() && queues.size() != jobs_.size())
    throw Error("CopySet", 0, "queues", "one queue for each copy");
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    std::size_t first = i;
    if (!queues.empty())
      first = static_cast<std::size_t>(std::ranges::find(queues, queues[i]) - queues.begin());
    const bool by_engine = !jobs_[i].spec.sm && !jobs_[first].spec.sm;
    if (first != i && (!by_engine || jobs_[first].spec.device != jobs_[i].spec.device))
      throw Error("CopySet", 0, "queues", "copy engines of one device alone share a queue");
    jobs_[i].queue = first;
  }
}

/// How many entries a run has in the queues of its streams; a kernel is one for all windows.
double CopySet::queued(int windows, int loops) const {
  double sum = 0;
  for (const Job& job : jobs_) sum += job.spec.sm ? 1 : windows * (1.0 * loops * job.share + 1);
  return sum;
}

CopySet::Boundaries CopySet::run_gated(int windows, int loops, const std::vector<int>& shares,
                                       const std::vector<int>& queues) {
  set_shares(shares);
  set_queues(queues);
  const ScopedBinding binding(*topology_, jobs_[0].spec.cpus);
  const auto boundaries = static_cast<std::size_t>(windows) + 2;  // one window more warms up
  if (boundaries > kMostBoundaries)
    throw Error("CopySet::run_gated", 0, "too many windows", std::to_string(windows));
  std::vector<const Stream*> streams;
  std::optional<double> patience;
  if (queued(windows + 1, loops) > kMostQueued) patience = kFullPatienceS;
  PeerAccessOff off;
  flush_caches();
  for (Job& job : jobs_) {
    prepare(job, boundaries);
    streams.push_back(&job.stream);
    switch_off_peers(off, job);
    if (job.staged) patience = kStagedPatienceS;
  }
  auto queue_all = [&] {
    // Window by window over all streams: should the queue fill up, all are equally far.
    for (std::size_t boundary = 0; boundary < boundaries; ++boundary)
      for (Job& job : jobs_) queue(job, boundary, windows + 1, loops * job.share);
  };
  gate_->run(streams, queue_all, patience);
  Boundaries seconds;
  for (const Job& job : jobs_) seconds.push_back(times_of(carrier(job), boundaries));
  return seconds;
}

std::vector<double> CopySet::times_of(const Job& job, std::size_t boundaries) const {
  std::vector<double> seconds;
  if (!job.spec.sm) {
    for (std::size_t boundary = 1; boundary < boundaries; ++boundary)
      seconds.push_back(job.events[boundary].seconds_since(job.events[0]));
    return seconds;
  }
  std::vector<std::uint64_t> stamps(boundaries);
  const ScopedDevice scope(job.spec.device);
  check(cudaMemcpy(stamps.data(), job.times->data(), boundaries * sizeof stamps[0],
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  for (std::size_t boundary = 1; boundary < boundaries; ++boundary) {
    if (stamps[boundary] < stamps[boundary - 1])
      throw Error("CopySet::run_gated", 0, "kernel apart",
                  "the blocks of a copy kernel did not all run at the same time");
    seconds.push_back(static_cast<double>(stamps[boundary] - stamps[0]) * 1e-9);
  }
  return seconds;
}

std::vector<double> CopySet::run_job(Job& job, int windows, double (*now)()) const {
  std::vector<double> stamps;
  for (int window = 0; window <= windows; ++window) {
    submit(job, 1, 1);
    check(cudaStreamSynchronize(job.stream.get()), "cudaStreamSynchronize");
    stamps.push_back(now());
  }
  return stamps;
}

CopySet::Boundaries CopySet::run_on_host_clock(int windows, const std::vector<int>& shares) {
  set_shares(shares);
  set_queues({});
  Boundaries seconds(jobs_.size());
  std::vector<std::exception_ptr> failures(jobs_.size());
  std::barrier start(static_cast<std::ptrdiff_t>(jobs_.size()));
  PeerAccessOff off;
  flush_caches();
  for (Job& job : jobs_) {
    prepare(job, 0);
    switch_off_peers(off, job);
  }
  auto run = [&](std::size_t number) {
    if (is_carried(jobs_[number])) return start.arrive_and_drop();
    bool started = false;
    try {
      const ScopedBinding binding(*topology_, jobs_[number].spec.cpus);
      const ScopedDevice scope(jobs_[number].spec.device);
      start.arrive_and_wait();
      started = true;
      seconds[number] = run_job(jobs_[number], windows * jobs_[number].share, host_seconds);
    } catch (...) {
      failures[number] = std::current_exception();
      if (!started) start.arrive_and_drop();  // or the others would wait for ever
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < jobs_.size(); ++i) {
      try {
        threads.emplace_back(run, i);
      } catch (const std::system_error& error) {
        failures[i] = std::make_exception_ptr(
            Error("std::thread", error.code().value(), "no thread", error.what()));
        start.arrive_and_drop();  // or those that run would wait for ever
      }
    }
    run(0);
  }
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    if (is_carried(jobs_[i])) seconds[i] = seconds[jobs_[i].spec.sm->in_step_with];
  return seconds;
}

/// The device that compares what has arrived: the one that has it, or else the one that copied.
int CopySet::checker(const Job& job) {
  const PlaceSpec place = job.destination->place();
  return place.memory == Memory::device ? place.index : job.spec.device;
}

std::size_t CopySet::count_mismatches() {
  throw_if_interrupted();
  copy_the_rest();
  std::size_t sum = 0;
  for (const Job& job : jobs_)  // first, as in write_patterns
    if (job.counter == nullptr)
      sum +=
          lanescope::count_mismatches(job.destination->data(), job.spec.walk.span_bytes, job.seed);
  std::vector<Stream> streams;
  auto start = [&](const Job& job) {
    if (job.counter == nullptr) return;
    const cudaStream_t stream = streams.emplace_back(checker(job)).get();
    const ScopedDevice scope(checker(job));
    start_check(job, stream);
  };
  finish_all(streams, [&] { std::ranges::for_each(jobs_, start); });
  for (const Job& job : jobs_) {
    if (job.counter == nullptr) continue;
    const ScopedDevice scope(checker(job));
    unsigned long long wrong = 0;
    check(cudaMemcpy(&wrong, job.counter->data(), sizeof wrong, cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    sum += checked(job, wrong);
  }
  return sum;
}

/// Has a device count the wrong bytes of a job, or add up what a kernel should have read.
void CopySet::start_check(const Job& job, cudaStream_t stream) {
  const std::size_t bytes = job.spec.walk.span_bytes;
  auto* counter = static_cast<unsigned long long*>(job.counter->data());
  check(cudaMemsetAsync(counter, 0, sizeof *counter, stream), "cudaMemsetAsync");
  if (work_of(job) == SmWork::read) return launch_pattern_sum(stream, bytes, job.seed, counter);
  const std::size_t period = work_of(job) == SmWork::write ? kWrittenPeriod : 0;
  launch_check(stream, job.destination->data(), bytes, job.seed, counter, period);
}

/// How many bytes are wrong, by what has been counted; of a sum nobody knows how many, and all
/// of them count.
std::size_t CopySet::checked(const Job& job, unsigned long long counted) {
  if (work_of(job) != SmWork::read) return counted;
  unsigned long long read = 0;
  check(cudaMemcpy(&read, job.destination->data(), sizeof read, cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return read == counted * job.read_loops ? 0 : job.spec.bytes;
}

void CopySet::spoil(std::size_t copy, std::size_t byte) {
  const Job& job = jobs_.at(copy);
  if (byte >= job.spec.walk.span_bytes)
    throw Error("CopySet::spoil", 0, "no such byte", "past the copy");
  copy_the_rest();  // or it might make up for this
  const ScopedDevice scope(job.spec.device);
  auto* place = static_cast<std::uint8_t*>(job.destination->data()) + byte;
  std::uint8_t value = 0;
  check(cudaMemcpy(&value, place, 1, cudaMemcpyDefault), "cudaMemcpy");
  value ^= 1;
  check(cudaMemcpy(place, &value, 1, cudaMemcpyDefault), "cudaMemcpy");
}

}  // namespace lanescope
