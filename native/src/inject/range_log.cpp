#include "range_log.hpp"

#include <unistd.h>

#include <utility>

#include "header.hpp"
#include "in_callback.hpp"

namespace lanescope::inject {

namespace {

const std::string kNoText;
const std::string kFurther = "(further names)";

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
  if (text.empty() || stopped_.load(std::memory_order_acquire)) return &kNoText;
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
  if (stopped_.load(std::memory_order_acquire)) return false;
  const InCallback mark;
  const Edge edge{realtime_ns(), id, this_thread(), kind, name, domain};
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
  lost += std::exchange(lost_, 0);
  return std::exchange(edges_, {});
}

void RangeLog::before_fork() noexcept {
  if (InCallback::is_marked()) return;  // a handler of a signal forks: the lock may be ours
  mutex_.lock();
  held_for_fork_ = true;
}

void RangeLog::after_fork() noexcept {
  if (std::exchange(held_for_fork_, false)) mutex_.unlock();
}

void RangeLog::in_child() noexcept {
  ++forks;
  if (!held_for_fork_) return stop();
  edges_.clear();
  lost_ = 0;
  after_fork();
}

RangeLog& range_log() noexcept {
  static auto* log = new RangeLog;
  return *log;
}

}  // namespace lanescope::inject
