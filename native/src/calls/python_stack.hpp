#pragma once

#include <cstdint>

#include "calls/ring.hpp"

namespace lanescope::calls {

/// @return what a record says of the Python code of this thread, which is in a call; a `StackCode`.
/// It takes at most 1 % of a thread's time, and 10 ms once.
std::uint32_t python_stack(Ring& ring) noexcept;

}  // namespace lanescope::calls
