#pragma once

#include <cstddef>
#include <cstdint>

namespace lanescope::inject {

/// @return a number for the content of `size` bytes, all of which are read. Contents of one size
/// that differ in one aligned word of 8 bytes always differ in it; others do but for chances of
/// 1 in 2^64. It keeps no secrets: contents can be made to have the same.
std::uint64_t content_hash(const void* bytes, std::size_t size) noexcept;

}  // namespace lanescope::inject
