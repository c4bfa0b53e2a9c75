#include "boost/carry.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "boost/cpus.hpp"
#include "boost/driver.hpp"
#include "boost/lane.hpp"
#include "boost/pages.hpp"
#include "boost/settings.hpp"
#include "boost/undisturbed.hpp"
#include "boost/workers.hpp"
#include "intercept/captures.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::boost {

namespace {

constexpr std::size_t kMostLanes = 64, kMostLanesOfDirection = 4, kMostNodes = 64;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(watch::clock_ns(CLOCK_MONOTONIC));
}

// ---- A child by fork has the state of its parent and none of its threads

std::atomic<pid_t> owner{0};  // of the state: the process that first carried a copy
std::atomic<bool> is_child{false};

// ---- What is there once

/// Apart from what is not zero at first, as these take more than all of the library's own bytes.
constinit std::array<Lane, kMostLanes> lanes;

struct Shared {
  std::array<std::atomic<Workers*>, kMostNodes + 1> workers{};
  std::atomic_flag is_making{};
  std::mutex of_decision;
  Decision decision;
};

Shared& shared() noexcept {
  static Shared one;
  return one;
}

Choice choose(const Kind& kind) noexcept {
  const std::lock_guard lock(shared().of_decision);
  return shared().decision.choose(kind);
}

/// @return the kind of a copy that is left to the driver at once.
std::optional<Kind> left_at_once(const Request& request) noexcept {
  if (!request.direction || settings().always || settings().dry) return {};
  const bool inwards = *request.direction == Direction::to_gpu;
  Kind kind{*request.direction, false, request.bytes};
  const std::lock_guard lock(shared().of_decision);
  if (!shared().decision.leaves_to_driver(kind)) return {};
  if (inwards) return kind;
  kind.fresh = is_fresh(reinterpret_cast<const char*>(request.to), request.bytes);
  if (kind.fresh && !shared().decision.leaves_to_driver(kind)) return {};
  return kind;
}

/// @return what the driver takes for such a copy (ns), 0: not known.
std::uint64_t learn(const Kind& kind, Carrier carrier, std::uint64_t ns, bool teaches) noexcept {
  const std::lock_guard lock(shared().of_decision);
  if (teaches) shared().decision.learn(kind, carrier, static_cast<double>(ns) * 1e-9);
  return static_cast<std::uint64_t>(shared().decision.expected(kind, Carrier::driver) * 1e9);
}

/// Holds a flag that nobody waits for.
class Making {
 public:
  Making() noexcept : got_(!shared().is_making.test_and_set(std::memory_order_acquire)) {}
  ~Making() {
    if (got_) shared().is_making.clear(std::memory_order_release);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  explicit operator bool() const noexcept { return got_; }

 private:
  bool got_;
};

/// @return the threads near a GPU; null where there are none, for the moment or for ever.
Workers* workers_near(int gpu, Reason& why) noexcept {
  const int count = threads_for(gpu, settings().threads);
  why = Reason::cores;
  if (count < 1) return nullptr;
  const Neighbourhood& near = host().near[static_cast<std::size_t>(gpu)];
  const bool known = near.node >= 0 && static_cast<std::size_t>(near.node) < kMostNodes;
  auto& there = shared().workers[known ? static_cast<std::size_t>(near.node) : kMostNodes];
  if (Workers* found = there.load(std::memory_order_acquire)) return found;
  const Making making;
  if (!making) {
    why = Reason::busy;
    return nullptr;
  }
  if (Workers* found = there.load(std::memory_order_acquire)) return found;
  Workers* made = Workers::start(count, near.cpus);
  if (made != nullptr) tally().threads.fetch_add(static_cast<std::uint64_t>(made->count()));
  there.store(made, std::memory_order_release);
  return made;
}

/// @return a lane of a context and direction, locked; null where all are in use.
Lane* known_lane(const Context& context, Direction direction, std::size_t& there) noexcept {
  for (Lane& lane : lanes) {
    if (!lane.is_of(context, direction)) continue;
    ++there;
    if (!lane.try_lock()) continue;
    if (lane.is_of(context, direction)) return &lane;
    lane.unlock();
  }
  return nullptr;
}

/// Forget the lanes of a context that had the handle of this one.
void close_left_lanes(const Context& context) noexcept {
  for (Lane& lane : lanes)
    if (lane.is_left_by(context) && lane.try_lock()) {
      lane.close();
      lane.unlock();
    }
}

/// @return the same, a new one where there are few.
Lane* locked_lane(const Context& context, Direction direction) noexcept {
  std::size_t there = 0;
  Lane* known = known_lane(context, direction, there);
  if (known != nullptr || there >= kMostLanesOfDirection) return known;
  const Making making;
  if (!making) return nullptr;
  close_left_lanes(context);
  for (Lane& lane : lanes)
    if (lane.is_free() && lane.try_lock()) {
      lane.open(context, direction);
      return &lane;
    }
  return nullptr;
}

class Unlocked {
 public:
  explicit Unlocked(Lane& lane) noexcept : lane_(lane) {}
  ~Unlocked() { lane_.unlock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Lane& lane_;
};

Reason reason_of(Ended ended) noexcept {
  switch (ended) {
    case Ended::busy:
      return Reason::busy;
    case Ended::memory:
      return Reason::memory;
    case Ended::room:
      return Reason::room;
    default:
      return Reason::failed;
  }
}

Verdict not_carried(Reason reason, const Kind& kind = {}, bool teaches = false) noexcept {
  return {false, reason, kind, teaches};
}

void count_carried(const Kind& kind, std::uint64_t ns, bool teaches) noexcept {
  const std::size_t at = index_of_direction(kind.direction);
  Tally& to = tally();
  to.carried[at].add(kind.bytes, ns);
  const std::uint64_t by_driver = learn(kind, Carrier::ring, ns, teaches);
  if (by_driver == 0 || !teaches) return;
  to.compared[at].add(kind.bytes, ns);
  to.driver_ns[at].fetch_add(by_driver, std::memory_order_relaxed);
}

/// Carry a copy by a lane that is locked.
Verdict carry_by(Lane& lane, const Copy& copy, const Context& context, Workers& workers,
                 std::uint64_t began) noexcept {
  const Kind kind{copy.direction,
                  copy.direction == Direction::from_gpu && is_fresh(copy.memory, copy.bytes),
                  copy.bytes};
  const Choice choice = settings().always ? Choice{Carrier::ring, false} : choose(kind);
  if (choice.carrier == Carrier::driver && !choice.trial) return not_carried(Reason::slower, kind);
  if (!lane.note_start(copy.stream)) return not_carried(Reason::failed, kind);
  // Of a copy that waits for what its stream does, nobody knows how long it took itself.
  if (choice.carrier == Carrier::driver) {
    const bool may_wait = !copy.asynchronous || copy.direction == Direction::from_gpu;
    return not_carried(Reason::compared, kind, lane.wait_for_start(may_wait));
  }
  const int node = host().near[static_cast<std::size_t>(context.device)].node;
  if (lane.prepare(copy.bytes, kind.fresh, workers.count(), node)) {
    const std::uint64_t ready = now_ns();
    tally().setup_ns.fetch_add(ready - began, std::memory_order_relaxed);
    began = ready;
  }
  if (kind.fresh && host().huge_by_advice) request_huge_pages(copy.memory, copy.bytes);
  bool at_once = false;
  const Ended ended = lane.carry(copy, workers, at_once);
  if (ended != Ended::carried) return not_carried(reason_of(ended), kind);
  count_carried(kind, now_ns() - began, at_once);
  return {true, {}, kind, false};
}

}  // namespace

bool is_own_process() noexcept {
  const pid_t self = getpid();
  pid_t before = owner.load();
  if (before == 0 && owner.compare_exchange_strong(before, self)) {
    pthread_atfork(nullptr, nullptr, [] { is_child.store(true); });
    return true;
  }
  return (before == self || before == 0) && !is_child.load();
}

void prepare() noexcept {
  driver();
  can_look_at_memory();
  Tally& to = tally();
  const Neighbourhood* slowest = nullptr;
  for (int gpu = 0; gpu < host().gpus; ++gpu) {
    const Neighbourhood& near = host().near[static_cast<std::size_t>(gpu)];
    if (slowest == nullptr ||
        near.link_gts * near.link_lanes < slowest->link_gts * slowest->link_lanes)
      slowest = &near;
  }
  if (slowest != nullptr) {
    to.link_rate.store(static_cast<std::uint64_t>(slowest->link_gts * 10));
    to.link_lanes.store(static_cast<std::uint64_t>(std::max(slowest->link_lanes, 0)));
    to.usable_threads.store(static_cast<std::uint64_t>(threads_for(0, settings().threads)));
  }
  intercept::capture_query<0>();
}

Verdict carry(const Request& request) noexcept {
  const std::uint64_t began = now_ns();
  if (!is_own_process()) return not_carried(Reason::forked);
  if (const auto kind = left_at_once(request)) return not_carried(Reason::slower, *kind);
  if (intercept::captures.load(std::memory_order_relaxed) > 0) return not_carried(Reason::captured);
  if (!driver().complete) return not_carried(Reason::old_driver);
  const std::optional<Context> context = current_context();
  if (!context) return not_carried(Reason::context);
  const Understood what = understood(request, *context);
  if (!what.copy) return not_carried(what.reason);
  const Copy& copy = *what.copy;
  const bool inwards = copy.direction == Direction::to_gpu;
  const Kind kind{copy.direction, false, copy.bytes};
  if (inwards ? !settings().to_gpu : !settings().from_gpu)
    return not_carried(Reason::excluded, kind);
  if (context->device < 0 || context->device >= host().gpus)
    return not_carried(Reason::context, kind);
  if (threads_for(context->device, settings().threads) < 1) return not_carried(Reason::cores, kind);
  if (!can_look_at_memory()) return not_carried(Reason::memory, kind);
  if (settings().dry) return not_carried(Reason::dry, kind);
  const Undisturbed undisturbed;
  Reason why_none{};
  Workers* workers = workers_near(context->device, why_none);
  if (workers == nullptr) return not_carried(why_none, kind);
  Lane* lane = locked_lane(*context, copy.direction);
  if (lane == nullptr) return not_carried(Reason::busy, kind);
  const Unlocked unlocked(*lane);
  return carry_by(*lane, copy, *context, *workers, began);
}

void driver_took(const Request& request, const Verdict& verdict, std::uint64_t ns) noexcept {
  const bool known = verdict.kind.bytes > 0;
  const std::size_t at = known               ? index_of_direction(verdict.kind.direction)
                         : request.direction ? index_of_direction(*request.direction)
                                             : kEitherDirection;
  tally().by_driver[static_cast<std::size_t>(verdict.reason)][at].add(request.bytes, ns);
  if (verdict.teaches) learn(verdict.kind, Carrier::driver, ns, true);
}

void driver_took_small(const Request& request) noexcept {
  const std::size_t at =
      request.direction ? index_of_direction(*request.direction) : kEitherDirection;
  tally().by_driver[static_cast<std::size_t>(Reason::small)][at].add(request.bytes, 0);
}

}  // namespace lanescope::boost
