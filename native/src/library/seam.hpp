#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "compress/host_codec.hpp"
#include "lanescope/compression.hpp"

namespace lanescope::compression {

namespace core = lanescope::compress;

/// Throws what is being caught as users know it: `Error`, or what a `Decider` of theirs threw.
[[noreturn]] void throw_for_users();

/// Calls something of the core.
template <typename Action>
decltype(auto) for_users(Action&& action) {
  try {
    return action();
  } catch (...) {
    throw_for_users();
  }
}

[[noreturn]] void refuse(const std::string& sentence);

}  // namespace lanescope::compression
