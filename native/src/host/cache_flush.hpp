#pragma once

#include <cstddef>

namespace lanescope {

/// Memory that no two blocks may share if one is to be in the caches and the other is not:
/// two lines of 64 bytes, which many CPUs fetch together, or one of 128.
inline constexpr std::size_t kApartBytes = 128;

/// Whether a program can flush the caches of this build's CPUs.
bool can_flush_caches();

/// Begins to write the lines of [data, data + bytes) back to memory and to drop them from all
/// caches. Throws `Error` where `can_flush_caches` says no.
void flush_from_caches(const void* data, std::size_t bytes);

/// Waits until all flushes of this thread are done.
void finish_flushes();

}  // namespace lanescope
