#pragma once

#include "boost/decision.hpp"

namespace lanescope::boost {

/// @return whether asynchronous copies of a direction that are looked up come to this library: it
/// was loaded before the others, and they have been looked up once.
bool stand_before_driver(Direction direction) noexcept;

}  // namespace lanescope::boost
