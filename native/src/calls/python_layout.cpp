#include "calls/python_layout.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "intercept/real_dlsym.hpp"

namespace lanescope::calls {

namespace {

// Measured with offsetof in the headers of these versions, whose layouts do not change.
constexpr PythonLayout kPython311{.thread_frame = 56,
                                  .inner_frame = 8,
                                  .frame_code = 32,
                                  .frame_previous = 48,
                                  .frame_instruction = 56,
                                  .frame_owner = 69,
                                  .first_outside = 3,
                                  .code_first_line = 72,
                                  .code_version = 0,
                                  .code_file = 112,
                                  .code_function = 128,
                                  .code_lines = 136,
                                  .code_start = 184,
                                  .ascii_bytes = 48,
                                  .other_bytes = 72};
constexpr PythonLayout kPython312{.thread_frame = 56,
                                  .inner_frame = 0,
                                  .frame_code = 0,
                                  .frame_previous = 8,
                                  .frame_instruction = 56,
                                  .frame_owner = 70,
                                  .first_outside = 3,
                                  .code_first_line = 68,
                                  .code_version = 92,
                                  .code_file = 112,
                                  .code_function = 128,
                                  .code_lines = 136,
                                  .code_start = 192,
                                  .ascii_bytes = 40,
                                  .other_bytes = 56};

/// What 3.13 says of itself at the beginning of _PyRuntime, as far as it is read; by the places of
/// numbers of 8 bytes.
struct DebugOffsets {
  enum Place : std::size_t {
    kCookie = 0,
    kVersion = 1,
    kFreeThreaded = 2,
    kThreadFrame = 23,
    kFramePrevious = 29,
    kFrameCode = 30,
    kFrameInstruction = 31,
    kFrameOwner = 33,
    kCodeFile = 35,
    kCodeFunction = 37,
    kCodeLines = 38,
    kCodeFirstLine = 39,
    kCodeStart = 43,
    kAsciiBytes = 70,
    kCount = 73,
  };
  std::uint64_t numbers[kCount];
};
constexpr char kDebugCookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
constexpr std::uint64_t kMostOffset = 512;

/// @return whether it could be found.
bool self_described(const void* runtime, unsigned long version, PythonLayout& layout) noexcept {
  DebugOffsets own;
  std::memcpy(&own, runtime, sizeof own);
  using Place = DebugOffsets::Place;
  const auto number = [&](Place place) { return own.numbers[place]; };
  if (std::memcmp(own.numbers, kDebugCookie, sizeof kDebugCookie) != 0 ||
      number(Place::kVersion) != version || number(Place::kFreeThreaded) != 0)
    return false;
  for (const Place place : {Place::kThreadFrame, Place::kFramePrevious, Place::kFrameCode,
                            Place::kFrameInstruction, Place::kFrameOwner, Place::kCodeStart})
    if (number(place) > kMostOffset) return false;
  for (const Place place : {Place::kCodeFile, Place::kCodeFunction, Place::kCodeLines,
                            Place::kCodeFirstLine, Place::kAsciiBytes})
    if (number(place) > kCodeHeadBytes - sizeof(std::uint64_t)) return false;
  const auto offset = [&](Place place) { return static_cast<std::uint32_t>(number(place)); };
  layout = {.thread_frame = offset(Place::kThreadFrame),
            .inner_frame = -1,
            .frame_code = offset(Place::kFrameCode),
            .frame_previous = offset(Place::kFramePrevious),
            .frame_instruction = offset(Place::kFrameInstruction),
            .frame_owner = offset(Place::kFrameOwner),
            .first_outside = 3,
            .code_first_line = offset(Place::kCodeFirstLine),
            .code_version = kPython312.code_version,
            .code_file = offset(Place::kCodeFile),
            .code_function = offset(Place::kCodeFunction),
            .code_lines = offset(Place::kCodeLines),
            .code_start = offset(Place::kCodeStart),
            .ascii_bytes = offset(Place::kAsciiBytes),
            .other_bytes = kPython312.other_bytes};
  return true;
}

void* symbol_of_python(const char* name) noexcept {
  return intercept::real_dlsym(RTLD_DEFAULT, name);
}

bool layout_of(unsigned long version, PythonLayout& layout) noexcept {
  if (version >> 16 == 0x030B) return layout = kPython311, true;
  if (version >> 16 == 0x030C) return layout = kPython312, true;
  const void* runtime = symbol_of_python("_PyRuntime");
  return version >> 16 == 0x030D && runtime != nullptr && self_described(runtime, version, layout);
}

Python found_python() noexcept {
  Python found;
  void* state = symbol_of_python("PyGILState_GetThisThreadState");
  if (state == nullptr) return found;
  found.is_there = true;
  found.thread_state = reinterpret_cast<void* (*)()>(state);
  const auto* version = static_cast<const unsigned long*>(symbol_of_python("Py_Version"));
  if (version == nullptr) return found;  // 3.10 or older
  PythonLayout& layout = found.layout;
  found.is_known = layout_of(*version, layout);
  layout.code_type = reinterpret_cast<std::uintptr_t>(symbol_of_python("PyCode_Type"));
  layout.string_type = reinterpret_cast<std::uintptr_t>(symbol_of_python("PyUnicode_Type"));
  layout.bytes_type = reinterpret_cast<std::uintptr_t>(symbol_of_python("PyBytes_Type"));
  return found;
}

}  // namespace

const Python& python() noexcept {
  static const Python found = found_python();
  return found;
}

}  // namespace lanescope::calls
