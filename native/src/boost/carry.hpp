#pragma once

#include <cstdint>

#include "boost/copy.hpp"
#include "boost/tally.hpp"

namespace lanescope::boost {

/// What became of a copy that may be carried.
struct Verdict {
  bool carried = false;
  Reason reason = Reason::failed;  ///< Why not.
  Kind kind{};
  bool teaches = false;  ///< What the driver takes now is worth to be known.
};

/// @return whether what is here is this process's, and not of its parent; where nobody has carried
/// or gathered anything, that begins.
bool is_own_process() noexcept;

/// Do once what opens files or takes long: CUDA has begun.
void prepare() noexcept;

/// Carry a copy of `Settings::from` bytes or more, if that can be and pays.
Verdict carry(const Request& request) noexcept;

/// Note that the driver has made such a copy, in so many ns.
void driver_took(const Request& request, const Verdict& verdict, std::uint64_t ns) noexcept;

/// Note a smaller one.
void driver_took_small(const Request& request) noexcept;

}  // namespace lanescope::boost
