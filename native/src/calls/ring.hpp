#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
  std::uint32_t stack = kNotWanted;
};

constexpr std::uint64_t kNoStacks = UINT64_MAX;

/// The ring of this process. Any number of threads may add to it; none ever waits.
class Ring {
 public:
  /// Create `folder`/calls.`pid`.ring, with a number behind the pid where there is one already.
  /// @param stacks_from bytes of copies whose Python lines are wanted, or more; or `kNoStacks`.
  /// @return null if that cannot be: no room, say.
  static Ring* create(const std::string& folder, const std::string& text,
                      std::uint64_t stacks_from) noexcept;

  /// Add to another ring, too: that of a watch around this one's.
  void set_outer(Ring* outer) noexcept { outer_ = outer; }

  void add(const Copy& copy, std::uint64_t start, std::uint64_t end) noexcept;
  void add_graph_launch() noexcept;

  [[nodiscard]] std::uint64_t stacks_from() const noexcept { return stacks_from_; }

  /// @return what records say of a stack with this text, of which there is one however many threads
  /// have it. The text may be there later than a record of another thread that has the stack, too.
  std::uint32_t stack(std::string_view text) noexcept;

  void add_stack_time(std::uint64_t ns) noexcept;

 private:
  Ring(char* file, std::uint64_t stacks_from) noexcept;

  void write_stack(std::size_t number, std::uint64_t key, std::string_view text,
                   std::size_t at) noexcept;

  Numbers* numbers_;
  Record* records_;
  Stack* stacks_;
  char* stack_text_;
  std::uint64_t stacks_from_;
  Ring* outer_ = nullptr;
};

}  // namespace lanescope::calls
