#include "calls/python_stack.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "calls/python_frames.hpp"
#include "calls/python_layout.hpp"
#include "inject/same_errno.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::calls {

namespace {

/// What a thread may spend on its stacks, in nanoseconds.
class StackBudget {
 public:
  bool has_some(std::int64_t now) noexcept {
    const std::int64_t passed = last_ == 0 ? kOnce * kOneOf : now - last_;
    left_ = std::min(left_ + passed / kOneOf, kOnce);
    last_ = now;
    return left_ > 0;
  }
  void spend(std::int64_t ns) noexcept { left_ -= ns; }

 private:
  static constexpr std::int64_t kOneOf = 100, kOnce = 10'000'000;

  std::int64_t last_;  // 0: nothing was spent yet
  std::int64_t left_;
};

struct KnownStack {
  std::uint64_t key;  // 0: none
  std::uint32_t stack;
};

constexpr std::size_t kKnown = 256;
constexpr std::size_t kShown = 8;          // frames of a stack's text
constexpr std::uint32_t kLookDeeper = 15;  // all that is shown is of libraries: no `StackCode`

/// What a thread has to read its frames with; made of zeros.
struct Reader {
  bool is_busy;  // a signal came meanwhile, whose handler copies
  StackBudget budget;
  PythonFrames frames;
  KnownStack known[kKnown];
  char text[kShown * PythonFrames::kLongestLine];
};

thread_local Reader* own_reader = nullptr;  // not in the thread's own memory, which may be short

/// @return null if there is no memory for it.
Reader* reader() noexcept {
  if (own_reader != nullptr) return own_reader;
  static const pthread_key_t at_end = [] {
    pthread_key_t key{};
    pthread_key_create(&key, [](void* reader) {
      own_reader = nullptr;
      std::free(reader);
    });
    return key;
  }();
  own_reader = static_cast<Reader*>(std::calloc(1, sizeof(Reader)));
  if (own_reader != nullptr) pthread_setspecific(at_end, own_reader);
  return own_reader;
}

/// @return the stack of the innermost frames; where `own` is not among these, with that as the
/// last.
std::uint32_t described(Reader& with, Ring& ring, std::size_t count, std::size_t own) noexcept {
  std::size_t size = 0;
  const std::size_t shown = std::min(count, kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t frame = i + 1 == shown && own < count ? std::max(i, own) : i;
    const std::size_t more =
        with.frames.describe(frame, {with.text + size, sizeof with.text - size});
    if (more == 0) return kUnreadable;
    size += more;
  }
  return ring.stack({with.text, size});
}

/// @return the stack of so many frames, remembered or described.
std::uint32_t stack_of(Reader& with, Ring& ring, std::size_t count) noexcept {
  const std::uint64_t key = with.frames.key();
  KnownStack& known = with.known[key % kKnown];
  if (known.key == key) return known.stack;
  std::size_t own = 0;
  while (own < count && with.frames.is_library(own)) ++own;
  const bool deeper = own == count && count == kShown;
  known = {key, deeper ? kLookDeeper : described(with, ring, count, own)};
  return known.stack;
}

std::uint32_t read_stack(Reader& with, Ring& ring) noexcept {
  const Python& own = python();
  if (!own.is_there) return kNoPython;
  if (!own.is_known) return kUnknownPython;
  const auto thread = reinterpret_cast<std::uintptr_t>(own.thread_state());
  if (thread == 0) return kNoPython;
  for (const std::size_t most : {kShown, PythonFrames::kMost}) {
    const int count = with.frames.find(own.layout, thread, most);
    if (count <= 0) return count == 0 ? kNoPython : kUnreadable;
    const std::uint32_t found = stack_of(with, ring, static_cast<std::size_t>(count));
    if (found != kLookDeeper) return found;
  }
  return kUnreadable;
}

}  // namespace

std::uint32_t python_stack(Ring& ring) noexcept {
  const inject::SameErrno guard;
  Reader* with = reader();
  if (with == nullptr || with->is_busy) return kOverBudget;
  if (!with->budget.has_some(watch::clock_ns(CLOCK_MONOTONIC))) return kOverBudget;
  // Of the thread's own time: while others run, nothing is spent.
  const std::int64_t begin = watch::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  with->is_busy = true;
  const std::uint32_t found = read_stack(*with, ring);
  with->is_busy = false;
  const std::int64_t took = watch::clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  with->budget.spend(took);
  ring.add_stack_time(static_cast<std::uint64_t>(took));
  return found;
}

}  // namespace lanescope::calls
