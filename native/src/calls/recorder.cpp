#include "calls/recorder.hpp"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "calls/counted.hpp"
#include "inject/header.hpp"
#include "inject/same_errno.hpp"
#include "inject/visible_gpus.hpp"

namespace lanescope::calls {

constinit Recording recording;

namespace {

constexpr const char* kFolders = "LANESCOPE_CALLS_FOLDER";  // with colons: a watch within a watch
constexpr const char* kEach = "LANESCOPE_CALLS_EACH";       // no copy is only counted
constexpr const char* kPython = "LANESCOPE_CALLS_PYTHON";  // bytes of copies whose lines are wanted
constexpr int kMostFolders = 4;

std::atomic<bool> has_tried{false};
std::mutex making;

/// What the parent records is its own. A child that uses CUDA has been made before the parent did.
void forget_in_child() noexcept {
  recording.has_ring.store(false);
  own_thread.left_to_count = 0;
  own_thread.is_close = false;
  making.unlock();
}

char named[4096];  // some folders; more are none
bool wants_each = false;

/// Takes what the environment says when the library is loaded, as the program may empty it; before
/// that where a library's own beginning uses CUDA. Nothing else is done then: all programs load it.
__attribute__((constructor)) void take_environment() noexcept {
  static bool taken = false;
  const char* found = taken ? nullptr : std::getenv(kFolders);
  taken = true;
  if (found != nullptr && std::strlen(found) < sizeof named) std::strcpy(named, found);
  wants_each = wants_each || std::getenv(kEach) != nullptr;
}

/// Where rings are made; empty: nowhere.
std::string_view folders() noexcept {
  static const std::string_view found = [] {
    take_environment();
    // No thread makes a ring while another one forks: its child would wait for it for ever.
    if (*named != '\0')
      pthread_atfork([] { making.lock(); }, [] { making.unlock(); }, forget_in_child);
    return std::string_view(named);
  }();
  return found;
}

std::string description() {
  std::string text = inject::header_line(inject::now_ns(), "", 0);
  inject::VisibleGpus gpus;
  gpus.find_driver();
  for (const std::string& address : gpus.addresses()) text += address + "\n";
  return text;
}

std::uint64_t wanted_stacks() noexcept {
  const char* text = std::getenv(kPython);
  const std::uint64_t from = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  return from == 0 ? kNoStacks : from;
}

/// @return the ring of the first folder that can have one, which adds to those of the others.
Ring* rings_in(std::string_view folders) {
  const std::string text = description();
  Ring* first = nullptr;
  Ring* last = nullptr;
  for (int count = 0; count < kMostFolders && !folders.empty(); ++count) {
    const std::size_t end = folders.find(':');
    Ring* ring = Ring::create(std::string(folders.substr(0, end)), text, wanted_stacks());
    folders.remove_prefix(end == std::string_view::npos ? folders.size() : end + 1);
    if (ring == nullptr) continue;
    if (last != nullptr) last->set_outer(ring);
    last = ring;
    if (first == nullptr) first = ring;
  }
  return first;
}

/// @return so far apart, by `now`, copies are close: some 25 µs, as a record takes about 0.12.
std::uint32_t close_distance() noexcept {
  if (!watch::ticks_are_steady()) return 25000;
#if defined(__aarch64__)
  std::uint64_t hertz;
  asm("mrs %0, cntfrq_el0" : "=r"(hertz));
  return static_cast<std::uint32_t>(hertz / 40000);
#else
  return 1 << 16;  // 16 to 33 µs of 4 to 2 GHz
#endif
}

Ring* there() noexcept {
  return recording.has_ring.load() ? &recording.ring : nullptr;
}

Ring* make() noexcept try {
  const std::lock_guard lock(making);
  if (has_tried.load()) return there();
  if (const Ring* made = rings_in(folders())) {
    recording.ring = *made;
    // what is only counted is in one ring and has no line of Python
    if (!wants_each && !made->has_outer() && made->stacks_from() > kSmallBytes)
      recording.close = close_distance();
    recording.has_ring.store(true);
  }
  has_tried.store(true, std::memory_order_release);
  return there();
} catch (...) {  // no memory
  has_tried.store(true);
  return nullptr;
}

}  // namespace

bool is_wanted() noexcept {
  return !folders().empty();
}

Ring* first_ring() noexcept {
  if (has_tried.load(std::memory_order_acquire)) return there();
  const inject::SameErrno guard;
  return make();
}

std::uint64_t first_now() noexcept {
  static const bool steady = watch::ticks_are_steady();
  if (!steady) return static_cast<std::uint64_t>(watch::clock_ns(CLOCK_MONOTONIC));
  recording.has_ticks.store(true, std::memory_order_relaxed);
  return watch::ticks();
}

}  // namespace lanescope::calls
