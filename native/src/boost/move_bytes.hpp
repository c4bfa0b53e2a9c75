#pragma once

#include <cstddef>

/// How threads move bytes between the program's memory and a ring.
namespace lanescope::boost {

/// Copy through the caches, so that what is read next finds it there.
void move_through_caches(char* to, const char* from, std::size_t bytes) noexcept;

/// Copy past the caches. A GPU reads what lies in the host's memory faster than what has to be
/// looked for in the caches of the CPUs that wrote it. When this returns another thread, or a GPU,
/// may be given the bytes.
void move_past_caches(char* to, const char* from, std::size_t bytes) noexcept;

}  // namespace lanescope::boost
