#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "inject/spool_format.hpp"

namespace lanescope::inject {

/// Begin or end of a range. Texts are the log's and stay for ever.
struct Edge {
  std::uint64_t at_ns;
  std::uint64_t id;
  std::uint32_t thread;
  EdgeKind kind;
  const std::string* name;
  const std::string* domain;
};

/// Begins and ends of this process's NVTX ranges, until they are taken to be written. Ranges can
/// begin before CUDA does: those are kept until it is known whether anything is traced. Several
/// threads may use it at once. It is never destroyed.
class RangeLog {
 public:
  /// More names than this are one: a program may number its ranges.
  static constexpr std::size_t kMostNames = 1 << 16;
  static constexpr std::size_t kLongestName = 512;  // bytes
  /// Edges that wait; more of them are counted as lost.
  static constexpr std::size_t kMostEdges = 1 << 16;
  /// So many should not wait for the next regular flush.
  static constexpr std::size_t kMany = 1 << 14;

  /// @return a text of the log's that is equal; the same for equal texts.
  const std::string* text(std::string_view text) noexcept;

  /// Note that a range begins or ends on this thread, now. Within another call of ours, as in a
  /// handler of a signal, it is counted as lost: the lock may be this thread's.
  /// @return whether so many wait that they should be written.
  bool add(EdgeKind kind, const std::string* domain, const std::string* name,
           std::uint64_t id) noexcept;

  /// @return a number for a range that can end on another thread.
  std::uint64_t next_id() noexcept { return ++last_id_; }

  /// Take what waits, in the order of time on each thread.
  /// @param lost is increased by the edges that were not kept.
  std::vector<Edge> take(std::uint64_t& lost) noexcept;

  /// Keep nothing any more.
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }

  /// In a child of fork(), where another thread may have held the lock for ever: nothing waits
  /// there, and texts are as they were. The lock is not held over fork(): a thread that has a lock
  /// which fork() waits for may be in here.
  void in_child() noexcept;

 private:
  /// Whether ranges are kept: not in a child that was made beside the handlers of fork().
  bool is_kept() const noexcept {
    return !stopped_.load(std::memory_order_acquire) && syscall(SYS_getpid) == process_;
  }

  std::mutex mutex_;
  std::unordered_set<std::string> texts_;
  std::vector<Edge> edges_;
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> last_id_{0};
  std::atomic<bool> stopped_{false};
  const long process_ = syscall(SYS_getpid);
};

/// @return the process's one log, which NVTX's handlers have no pointer to.
RangeLog& range_log() noexcept;

}  // namespace lanescope::inject
