#include "cuda/ping_pong.hpp"

#include <atomic>
#include <utility>

#include "cuda/gate.hpp"
#include "cuda/host_clock.hpp"
#include "cuda/latency_kernels.hpp"
#include "cuda/lend_to.hpp"

namespace lanescope {

namespace {

// The kernel gives up by itself, so that even a killed process leaves no GPU spinning.
constexpr std::uint64_t kKernelTimeoutNs = 10'000'000'000;
constexpr double kAnswerTimeoutS = 5;
// The kernel starts during the first of these.
constexpr std::uint32_t kWarmups = 16;
// Two lines of a CPU, as it fetches them in pairs.
constexpr std::size_t kWordsApart = 128 / sizeof(std::uint32_t);

/// Tells the kernel to end, however the scope is left.
class StopOnExit {
 public:
  explicit StopOnExit(std::uint32_t& ping) noexcept : ping_(ping) {}
  ~StopOnExit() { std::atomic_ref(ping_).store(kEchoStop, std::memory_order_release); }
  StopOnExit(const StopOnExit&) = delete;
  StopOnExit& operator=(const StopOnExit&) = delete;

 private:
  std::uint32_t& ping_;
};

}  // namespace

PingPong::PingPong(std::shared_ptr<const Topology> topology, BufferPool& pool, PlaceSpec words,
                   int device, std::vector<int> cpus)
    : topology_(std::move(topology)),
      cpus_(std::move(cpus)),
      words_(lend_to(device, pool, words, 2 * kWordsApart * sizeof(std::uint32_t))),
      stream_(device) {
  if (words.memory == Memory::device || words.memory == Memory::pageable ||
      words.memory == Memory::small_pages)
    throw Error("PingPong", 0, "bad places", "the words must be where CPU and GPU see them");
}

std::uint32_t& PingPong::ping() const {
  return *static_cast<std::uint32_t*>(words_->data());
}

std::uint32_t& PingPong::pong() const {
  return static_cast<std::uint32_t*>(words_->data())[kWordsApart];
}

std::vector<double> PingPong::run(int turns) {
  if (turns < 1) return {};
  const ScopedBinding binding(*topology_, cpus_);
  const ScopedDevice scope(stream_.device());
  const std::uint32_t all = kWarmups + static_cast<std::uint32_t>(turns);
  ping() = 0;
  pong() = 0;
  launch_echo(stream_.get(), &ping(), &pong(), all, kKernelTimeoutNs);
  std::vector<double> seconds;
  try {
    const StopOnExit stopper(ping());
    seconds = play(all);
  } catch (const Error&) {
    try {
      wait_for(stream_, kHangTimeoutS);
    } catch (const Error&) {  // the first failure is the one to tell
    }
    throw;
  }
  wait_for(stream_, kHangTimeoutS);
  return {seconds.begin() + kWarmups, seconds.end()};
}

std::vector<double> PingPong::play(std::uint32_t turns) const {
  std::vector<double> seconds;
  seconds.reserve(turns);
  const std::atomic_ref ping_word(ping());
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    const auto begin = HostClock::now();
    ping_word.store(turn, std::memory_order_release);
    spin_until(pong(), turn, kAnswerTimeoutS);
    seconds.push_back(seconds_since(begin));
  }
  return seconds;
}

}  // namespace lanescope
