#pragma once

#include <cuda.h>

#include "boost/decision.hpp"

namespace lanescope::boost {

/// @return whether asynchronous copies of a direction that are looked up come to this library: it
/// was loaded before the others, and they have been looked up once.
bool stand_before_driver(Direction direction) noexcept;

/// Issue copies that are gathered here, and end their run: what follows calls the driver itself.
/// @return an error of theirs.
CUresult settle_before_driver() noexcept;

}  // namespace lanescope::boost
