#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "compress/checksum.hpp"
#include "compress/format.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {

/// The major version of nvCOMP whose chunks are read, and whose functions are called.
inline constexpr std::uint32_t kNvcompMajor = 6;

/// Blocks of fewer bytes are stored as they are: what nvCOMP puts before its codes is more than
/// they save.
inline constexpr std::size_t kLeastChunkBytes = 1 << 10;

/// Stands before nvCOMP's chunk in a payload. nvCOMP's decoders do not stand damaged chunks, so
/// that they are given none before this was compared.
struct alignas(16) ChunkFront {
  std::uint64_t checksum = 0;  ///< The sum of parts of all that follows in the payload.
  std::uint64_t about = 0;     ///< `about_chunk`.
};
static_assert(sizeof(ChunkFront) == 16);

/// What a chunk is: nvCOMP's version as it tells it (6000 is 6.0.0), the codec and the type of the
/// stream, and the bytes of the block. A chunk of another stream or another size fits nowhere else.
LANESCOPE_LANES constexpr std::uint64_t about_chunk(std::uint32_t version, Codec codec, Dtype dtype,
                                                    std::uint32_t block_bytes) {
  return (version & 0xFFFF) | static_cast<std::uint64_t>(codec) << 16 |
         static_cast<std::uint64_t>(dtype) << 24 | static_cast<std::uint64_t>(block_bytes) << 32;
}

LANESCOPE_LANES constexpr std::uint32_t version_of_chunk(std::uint64_t about) {
  return static_cast<std::uint32_t>(about & 0xFFFF);
}

/// Whether a chunk is one of such a stream and block, by an nvCOMP whose chunks are read.
LANESCOPE_LANES constexpr bool fits(std::uint64_t about, Codec codec, Dtype dtype,
                                    std::uint32_t block_bytes) {
  return version_of_chunk(about) / 1000 == kNvcompMajor &&
         about == about_chunk(version_of_chunk(about), codec, dtype, block_bytes);
}

/// What `ChunkFront::checksum` has to be: of what follows it.
inline std::uint64_t checksum_of_chunk(std::span<const std::byte> payload) {
  constexpr std::size_t kBefore = sizeof(ChunkFront::checksum);
  return checksum_sum(payload.data() + kBefore, payload.size() - kBefore);
}

/// The sentence that says that a codec is there only with nvCOMP.
inline std::string needs_nvcomp(Codec codec) {
  return std::string("codec ") + entry_of(codec).name +
         " needs a GPU and nvCOMP: pip install 'lanescope[nvcomp]'";
}

/// What is wrong with the payload of a block that nvCOMP coded, as a sentence's end; null where it
/// is as it was when it was coded.
inline const char* fault_of_chunk(std::span<const std::byte> payload, Codec codec, Dtype dtype,
                                  std::size_t block_bytes) {
  ChunkFront front;
  if (payload.size() <= sizeof front) return "its payload is too short for a chunk of nvCOMP's";
  std::memcpy(&front, payload.data(), sizeof front);
  if (checksum_of_chunk(payload) != front.checksum)
    return "the checksum of its payload does not fit: it was changed after it was compressed";
  if (version_of_chunk(front.about) / 1000 != kNvcompMajor)
    return "it was coded by an nvCOMP of another version than 6, which this lanescope reads";
  if (!fits(front.about, codec, dtype, static_cast<std::uint32_t>(block_bytes)) ||
      block_bytes % bytes_of(dtype) != 0)
    return "its payload is of another stream or another block";
  return nullptr;
}

}  // namespace lanescope::compress
