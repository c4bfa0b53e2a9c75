#pragma once

#include <cstdint>

namespace lanescope::calls {

struct Memory;
struct Counted;

/// What a thread that copies has of its own, in one cache line. The rest lies elsewhere: a thread's
/// own memory may be short.
struct alignas(64) OwnThread {
  Memory* memory = nullptr;      ///< what it remembers of places; null: nothing yet
  const void* stream = nullptr;  ///< the latest that it copied in: first the default stream,
  std::uint64_t stream_id = 0;   ///< and the driver's number of it
  std::uint32_t number = 0;      ///< the kernel's; 0: not known yet
  // of small copies that are close to each other: counted.hpp
  std::uint32_t left_to_count = 0;  ///< so many more are only counted
  Counted* counted = nullptr;       ///< where; null: nowhere yet
  std::uint64_t judged_from = 0;    ///< when those began by which it is judged how close they are
  std::uint32_t judged = 0;         ///< how many these are
  std::uint8_t counted_call = 0;    ///< what is counted
  bool is_close = false;
};
static_assert(sizeof(OwnThread) == 64);
// The library is loaded with the program, so that its place among a thread's own is fixed.
extern constinit thread_local OwnThread own_thread __attribute__((tls_model("initial-exec")));

/// What `thread_number` does at the thread's first time.
std::uint32_t first_thread_number() noexcept;

inline std::uint32_t thread_number() noexcept {
  return own_thread.number != 0 ? own_thread.number : first_thread_number();
}

}  // namespace lanescope::calls
