#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lanescope/compress/host_codec.hpp"
#include "lanescope/compression.hpp"

namespace lanescope::compression {

namespace core = lanescope::compress;

/// Throws what is being caught as users know it: `Error`, or what a `Decider` of theirs threw.
[[noreturn]] void throw_for_users();

/// Calls something of the core.
template <typename Action>
decltype(auto) told(Action&& action) {
  try {
    return action();
  } catch (...) {
    throw_for_users();
  }
}

[[noreturn]] void refuse(const std::string& sentence);

/// Throws `Error` unless there are such GPUs.
void require_gpu(int gpu);

/// The GPU in whose memory an array lies; `what` names it for people: "the array". Throws `Error`.
int gpu_of(const void* at, const std::string& what);

/// Throws `Error` unless the memory is that GPU's, or none.
void require_on(int gpu, std::span<const std::byte> memory, const std::string& what);

inline core::Codec core_of(Codec codec) {
  return static_cast<core::Codec>(codec);
}
inline core::Dtype core_of(Dtype dtype) {
  return static_cast<core::Dtype>(dtype);
}

}  // namespace lanescope::compression
