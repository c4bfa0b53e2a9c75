#pragma once

#include <cstdint>

namespace lanescope::calls {

/// So much of a code object has all that is read of it.
constexpr std::uint32_t kCodeHeadBytes = 160;

/// Where CPython has what is read of it: offsets in its structures, and addresses of its types.
struct PythonLayout {
  std::uint32_t thread_frame;  ///< in the state of a thread: the address of the innermost frame,
  std::int32_t inner_frame;    ///< or of what has that here; -1: the former
  std::uint32_t frame_code;
  std::uint32_t frame_previous;
  std::uint32_t frame_instruction;
  std::uint32_t frame_owner;   ///< a byte
  std::uint8_t first_outside;  ///< from this owner on a frame runs no Python code
  std::uint32_t code_first_line;
  std::uint32_t code_version;  ///< 4 bytes that no two code objects share; 0: there are none
  std::uint32_t code_file;
  std::uint32_t code_function;
  std::uint32_t code_lines;
  std::uint32_t code_start;
  std::uint32_t ascii_bytes;  ///< the text of a string in ASCII begins here,
  std::uint32_t other_bytes;  ///< that of another one here
  std::uint64_t code_type = 0;
  std::uint64_t string_type = 0;
  std::uint64_t bytes_type = 0;
};

/// The Python of this process.
struct Python {
  bool is_there = false;  ///< else nothing else is
  bool is_known = false;  ///< whether `layout` is its own
  void* (*thread_state)() = nullptr;
  PythonLayout layout{};
};

/// @return what is found in the process when this is first called.
const Python& python() noexcept;

}  // namespace lanescope::calls
