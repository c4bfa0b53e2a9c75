#pragma once

#include <cuda.h>

#include <cstdint>

#include "boost/carry.hpp"
#include "boost/settings.hpp"
#include "inject/same_errno.hpp"
#include "watch/watch_clock.hpp"

namespace lanescope::boost {

/// Carry a copy, or have the driver make it where it is too small or cannot be carried.
/// @param by_driver makes it.
/// @return what the driver returns; CUDA_SUCCESS where it was carried.
template <class ByDriver>
CUresult carried_or(const Request& request, ByDriver by_driver) noexcept {
  if (request.bytes < settings().from) {
    driver_took_small(request);
    return by_driver();
  }
  Verdict verdict;
  {
    const inject::SameErrno guard;
    verdict = carry(request);
  }
  if (verdict.carried) return CUDA_SUCCESS;
  const auto start = watch::clock_ns(CLOCK_MONOTONIC);
  const CUresult result = by_driver();
  const auto took = static_cast<std::uint64_t>(watch::clock_ns(CLOCK_MONOTONIC) - start);
  verdict.teaches = verdict.teaches && result == CUDA_SUCCESS;
  const inject::SameErrno guard;
  driver_took(request, verdict, took);
  return result;
}

}  // namespace lanescope::boost
