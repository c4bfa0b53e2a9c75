#pragma once

#include <sched.h>

namespace lanescope::boost {

/// Start threads that go on until the process ends, and take no signals of the program's.
/// @param cpus where; none: anywhere.
/// @return how many could be started.
int start_threads(int count, const cpu_set_t& cpus, void* (*run)(void*), void* state) noexcept;

}  // namespace lanescope::boost
