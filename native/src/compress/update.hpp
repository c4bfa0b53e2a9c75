#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/format.hpp"

namespace lanescope::compress {

// An update codes, in place of values, their differences to those of a base, an array of as many
// bytes that both sides hold. Checksums of blocks are of differences, so that nothing of a damaged
// block gets onto a base that is updated in place; the base has a checksum of its own.

/// The base, if there is one.
using Base = std::optional<std::span<const std::byte>>;

/// The sum of the checksum of an array in the host's memory, on so many threads.
std::uint64_t sum_on_host(std::span<const std::byte> array, int threads);

/// Differences of values to a base, and values again, in the host's memory; `out` may be either of
/// the others.
void take_differences(const Differing& differing, std::span<const std::byte> values,
                      const std::byte* base, std::byte* out);
void put_differences(const Differing& differing, std::span<const std::byte> differences,
                     const std::byte* base, std::byte* out);

/// Throws `Error` where a base is none for an array of so many bytes to be compressed.
void require_base_of(std::size_t bytes, const Base& base);

/// Throws `Error` where an update has no base, or one of another size, or another stream has one,
/// or where memory for the array is a part of the base.
void require_base(const Layout& layout, const Base& base, std::span<const std::byte> out);

/// Throws `Error` where an update was made against another base than one with such a sum.
void require_sum(const Layout& layout, std::uint64_t sum);

}  // namespace lanescope::compress
