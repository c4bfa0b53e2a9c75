#include "inject/range_log.hpp"

#include <unistd.h>

#include <new>
#include <utility>

#include "inject/header.hpp"
#include "inject/in_callback.hpp"

namespace lanescope::inject {

namespace {

// Never destroyed: a program may use ranges until the very end.
const std::string& kNoText = *new std::string;
const std::string& kFurther = *new std::string("(further names)");

std::atomic<std::uint32_t> forks{1};  // behind us: a child's thread has another number

std::uint32_t this_thread() noexcept {
  static thread_local std::uint32_t known_at = 0;
  static thread_local std::uint32_t thread = 0;
  if (const std::uint32_t now = forks.load(std::memory_order_relaxed); now != known_at) {
    known_at = now;
    thread = static_cast<std::uint32_t>(gettid());
  }
  return thread;
}

}  // namespace

const std::string* RangeLog::text(std::string_view text) noexcept {
  if (text.empty() || !is_kept()) return &kNoText;
  if (InCallback::is_marked()) return &kFurther;
  const InCallback mark;
  try {
    std::string wanted(text.substr(0, kLongestName));
    const std::lock_guard lock(mutex_);
    if (texts_.size() >= kMostNames) {
      const auto known = texts_.find(wanted);
      return known == texts_.end() ? &kFurther : &*known;
    }
    return &*texts_.insert(std::move(wanted)).first;
  } catch (...) {  // no memory
    return &kFurther;
  }
}

bool RangeLog::add(EdgeKind kind, const std::string* domain, const std::string* name,
                   std::uint64_t id) noexcept {
  if (!is_kept()) return false;
  if (InCallback::is_marked()) {
    ++lost_;
    return false;
  }
  const InCallback mark;
  const Edge edge{now_ns(), id, this_thread(), kind, name, domain};
  const std::lock_guard lock(mutex_);
  try {
    if (edges_.size() < kMostEdges)
      edges_.push_back(edge);
    else
      ++lost_;
  } catch (...) {
    ++lost_;
  }
  return edges_.size() >= kMany;
}

std::vector<Edge> RangeLog::take(std::uint64_t& lost) noexcept {
  const std::lock_guard lock(mutex_);
  lost += lost_.exchange(0);
  return std::exchange(edges_, {});
}

void RangeLog::in_child() noexcept {
  ++forks;
  if (InCallback::is_marked()) return stop();  // a handler of a signal forked: this goes on in here
  const bool stopped = stopped_.load();
  const std::uint64_t last_id = last_id_.load();
  new (this) RangeLog;  // what there was stays in memory, as it may be half changed
  stopped_.store(stopped);
  last_id_.store(last_id);
}

RangeLog& range_log() noexcept {
  static auto* log = new RangeLog;
  return *log;
}

}  // namespace lanescope::inject
