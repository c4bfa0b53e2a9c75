#pragma once

#include "inject/activation.hpp"
#include "inject/same_errno.hpp"

namespace lanescope::inject {

/// @return the callbacks that lead to this process's tracer.
Callbacks callbacks() noexcept;

/// Begin to trace, unless that has been done.
void begin_tracer();

/// Write what waits in the log of ranges; nothing where nothing is traced.
void write_ranges() noexcept;

/// The program uses NVTX: what only ranges need is traced from now on.
void ranges_begun() noexcept;

/// @return whether it does by now.
bool ranges_in_use() noexcept;

}  // namespace lanescope::inject
