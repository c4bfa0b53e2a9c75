#pragma once

#include "activation.hpp"

namespace lanescope::inject {

/// @return the callbacks that lead to this process's tracer.
BufferCallbacks buffer_callbacks() noexcept;

}  // namespace lanescope::inject
