#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "calls/own_memory.hpp"
#include "calls/python_layout.hpp"

namespace lanescope::calls {

/// A frame of Python: its code object, and where in it the thread is.
struct PythonFrame {
  std::uint64_t code;
  std::uint64_t instruction;
};

/// The beginning of a code object.
struct CodeHead {
  char bytes[kCodeHeadBytes];

  template <class Value>
  [[nodiscard]] Value at(std::uint32_t offset) const noexcept {
    Value value;
    __builtin_memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
};

/// Reads the frames of the calling thread, which stay as they are while it is in a call. It takes
/// no lock of Python's and touches no reference count, and reads by `OwnMemory` alone.
class PythonFrames {
 public:
  static constexpr std::size_t kMost = 64;

  /// Find the innermost frames, `most` or less.
  /// @return how many; -1 where what should be one is none.
  int find(const PythonLayout& layout, std::uint64_t thread_state, std::size_t most) noexcept;

  /// @return a hash that distinguishes the frames from earlier ones, whose code may have been freed
  /// and may have had the same addresses.
  std::uint64_t key() noexcept;

  /// @return whether a frame runs code of a library or of Python's own, by the path of its file.
  bool is_library(std::size_t frame) noexcept;

  /// Write a frame as a line of a stack's text.
  /// @return its bytes; 0 where it cannot be read.
  std::size_t describe(std::size_t frame, std::span<char> to) noexcept;

  static constexpr std::size_t kLongestLine = 640;

 private:
  std::size_t read_string(std::uint64_t at, std::span<char> to, bool end) noexcept;
  std::int64_t line_of(std::size_t frame) noexcept;
  std::uint64_t content_key(std::size_t frame) noexcept;

  OwnMemory memory_;
  const PythonLayout* layout_;
  std::size_t count_;
  PythonFrame frames_[kMost];
  CodeHead heads_[kMost];
};

}  // namespace lanescope::calls
