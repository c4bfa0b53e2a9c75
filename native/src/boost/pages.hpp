#pragma once

#include <cstddef>

/// Pages of the program's memory: had before they are used, and looked at by the kernel, so that an
/// address that is wrong is an answer and no fault in a thread that is not the program's.
namespace lanescope::boost {

/// @return whether memory can be looked at here: a sandbox may forbid the calls for it.
bool can_look_at_memory() noexcept;

/// Have the pages of up to `kMostLookedAt` bytes that are not there yet.
/// @return whether the memory may be read. That is looked up for each page that was not there, and
/// for the first and the last one: permissions that change in between are not noticed.
bool make_readable(const char* data, std::size_t bytes) noexcept;

/// The same for writing. No byte changes.
bool make_writable(char* data, std::size_t bytes) noexcept;

/// @return whether all pages of up to `kMostLookedAt` bytes are there, and the first and the last
/// one may be read, or written: then the two above would do nothing.
bool is_ready(const char* data, std::size_t bytes, bool write) noexcept;

constexpr std::size_t kMostLookedAt = 4 << 20;

/// @return whether most of some memory has no pages yet, by a sample.
bool is_fresh(const char* data, std::size_t bytes) noexcept;

/// Request huge pages for memory that was never touched, as far as it fills them.
void request_huge_pages(char* data, std::size_t bytes) noexcept;

}  // namespace lanescope::boost
