#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compress/format.hpp"

namespace lanescope::compress {

/// What a stream says of its strips.
struct StripKind {
  Codec codec;
  Dtype dtype;
  int dimensionality;
  std::uint32_t version = kVersion;  ///< Of what is decoded.
};

/// Most bytes of a coded block's payload, whatever the codec.
inline constexpr std::size_t kMostPayloadBytes = kStripTable + kBlockBytes + kBlockBytes / 2;

/// How the CPUs of one kind code blocks. All make the same streams, to the bit; newer CPUs have
/// instructions that make them sooner.
struct HostStrips {
  const char* name;

  /// Codes a block of whole values, 64 KiB at most, and returns the bytes of the payload. `in` is
  /// aligned to 16 bytes, and `out` has room for `kMostPayloadBytes`.
  std::size_t (*encode)(const StripKind& kind, const std::byte* in, std::size_t bytes,
                        std::byte* out);

  /// Decodes what `encode` made of so many bytes of whole values, which `out`, aligned to 16 bytes,
  /// has room for; false where `payload` is nothing of the kind.
  bool (*decode)(const StripKind& kind, const std::byte* payload, std::size_t payload_bytes,
                 std::byte* out, std::size_t bytes);

  /// `checksum_of`.
  std::uint32_t (*checksum)(const void* data, std::size_t bytes, std::uint64_t place);

  /// `sum_of_words`.
  std::uint64_t (*sum)(const void* data, std::size_t bytes, std::uint64_t place);
};

/// Those that this CPU can run, the fastest one last.
std::span<const HostStrips* const> possible_host_strips();

/// The fastest one that this CPU can run.
const HostStrips& host_strips();

// Null where this was built for CPUs of another kind, or by a compiler that does not know these.
const HostStrips* any_cpu_host_strips();
const HostStrips* avx2_host_strips();
const HostStrips* avx512_host_strips();

}  // namespace lanescope::compress
