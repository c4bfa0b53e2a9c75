#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "boost/copy.hpp"

/// Small copies that follow each other, gathered into batches: `lanescope boost --batch`.
///
/// A *run* is what one thread copies to a GPU by asynchronous calls in one stream, with no other
/// call of the driver's in this process between that could tell. The first copy of a run goes by
/// the driver: most have no second. The bytes of the next ones are read at once into pinned memory,
/// and go to the GPU together when there are many, when no more come, or before the call that ends
/// the run.
namespace lanescope::boost {

constexpr std::size_t kMostGathered = 64 << 10;  // bytes of a copy

/// What the numbers of a process say of batches.
enum class Batching : std::uint8_t { unused, used, old_driver, failed };

/// Gather a copy, or end the run where it cannot be one of it.
/// @return what the program gets; none: the driver is to make the copy, all before it are issued.
std::optional<CUresult> gather_or_settle(const Request& request) noexcept;

/// Issue what is gathered, and end the run: something is to come behind it.
/// @return an error that the program is to get now: of a copy that could not be made.
CUresult settle() noexcept;

/// Gather nothing any more: not all calls of this process can be noticed.
void forbid_batches() noexcept;

/// Issue what has been gathered for long.
/// @return whether there is or was something; none: there will be nothing any more.
std::optional<bool> issue_aged() noexcept;

}  // namespace lanescope::boost
