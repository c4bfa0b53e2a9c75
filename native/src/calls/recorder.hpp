#pragma once

#include <cstdint>

#include "calls/ring.hpp"

namespace lanescope::calls {

/// @return whether this process is to record its copies: LANESCOPE_CALLS_FOLDER names a folder.
bool is_wanted() noexcept;

/// @return the ring, made when CUDA begins, else when it is first requested; null where nothing is
/// recorded: there is no room, or the process is a child of one that records, whose ring is not its
/// own.
Ring* ring() noexcept;

/// @return now, for `Ring::add`.
std::uint64_t now() noexcept;

}  // namespace lanescope::calls
