#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "calls/own_thread.hpp"
#include "calls/ring_format.hpp"

namespace lanescope::calls {

/// What a wrapped call tells of a copy.
struct Copy {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint8_t call = 0;
  std::uint8_t source_kind = 0;
  std::uint8_t destination_kind = 0;
  bool asynchronous = false;
  std::int16_t source_device = -1;
  std::int16_t destination_device = -1;
  std::int16_t device = -1;
  std::uint16_t counted = 0;  ///< before it, since the latest record of its thread and call
  std::uint32_t stack = kNotWanted;
  std::uint32_t counted_bytes = 0;
};

constexpr std::uint64_t kNoStacks = UINT64_MAX;

/// The ring of this process. Any number of threads may add to it; none ever waits.
class Ring {
 public:
  constexpr Ring() noexcept = default;  // none: nothing can be added

  /// Create `folder`/calls.`pid`.ring, with a number behind the pid where there is one already.
  /// @param stacks_from bytes of copies whose Python lines are wanted, or more; or `kNoStacks`.
  /// @return null if that cannot be: no room, say.
  static Ring* create(const std::string& folder, const std::string& text,
                      std::uint64_t stacks_from) noexcept;

  /// Add to another ring, too: that of a watch around this one's.
  void set_outer(Ring* outer) noexcept { outer_ = outer; }

  void add(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept;
  void add_graph_launch() noexcept;

  /// @return where a thread counts copies by a call; null if there is no room for another one.
  Counted* counted_by(std::uint32_t thread, std::uint8_t call) noexcept;

  [[nodiscard]] bool has_outer() const noexcept { return outer_ != nullptr; }
  [[nodiscard]] std::uint64_t stacks_from() const noexcept { return stacks_from_; }

  /// @return what records say of a stack with this text, of which there is one however many threads
  /// have it. The text may be there later than a record of another thread that has the stack, too.
  std::uint32_t stack(std::string_view text) noexcept;

  void add_stack_time(std::uint64_t ns) noexcept;

 private:
  Ring(char* file, std::uint64_t stacks_from) noexcept;

  /// `add`, of a ring that is another one's outer.
  void add_behind(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept;

  void write_stack(std::size_t number, std::uint64_t key, std::string_view text,
                   std::size_t at) noexcept;

  Numbers* numbers_ = nullptr;
  Record* records_ = nullptr;
  Stack* stacks_ = nullptr;
  char* stack_text_ = nullptr;
  std::uint64_t stacks_from_ = kNoStacks;
  Ring* outer_ = nullptr;
};

/// Have the processor fetch a line that is about to be written: it was last read by lanescope, on
/// another core, and until it is here whatever locks something waits, behind the call.
inline void fetch_for_writing(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" : : "r"(line));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

inline void Ring::add(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept {
  const std::uint64_t number = numbers_->next.fetch_add(1, std::memory_order_relaxed);
  Record& record = records_[number % kRecords];
  // Whoever reads meanwhile sees that it is not whole.
  record.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  record.start = start;
  record.end = end;
  record.bytes = copy.bytes;
  record.stream = copy.stream;
  record.thread = thread_number();
  record.call = copy.call;
  record.source_kind = copy.source_kind;
  record.destination_kind = copy.destination_kind;
  record.asynchronous = copy.asynchronous ? 1 : 0;
  record.source_device = copy.source_device;
  record.destination_device = copy.destination_device;
  record.device = copy.device;
  record.counted = copy.counted;
  record.stack = copy.stack;
  record.counted_bytes = copy.counted_bytes;
  record.sequence.store(number + 1, std::memory_order_release);
  fetch_for_writing(&records_[(number + 1) % kRecords]);
  if (outer_ != nullptr) [[unlikely]] {
    const Copy same = copy;  // so that what nobody has the address of stays in registers
    outer_->add_behind(same, start, end);
  }
}

}  // namespace lanescope::calls
