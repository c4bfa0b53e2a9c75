#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lanescope::inject {

/// @return `content_hash` of memory that may be gone, or go meanwhile: the kernel reads it, so that
/// an address that is wrong is an answer and no fault. Nothing where not all of it can be read, or
/// where a sandbox forbids the call for it.
std::optional<std::uint64_t> guarded_hash(std::uint64_t address, std::size_t bytes) noexcept;

}  // namespace lanescope::inject
