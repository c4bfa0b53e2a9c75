#pragma once

#include <cstdint>
#include <cstring>

#include "compress/format.hpp"
#include "compress/strip_codec.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Most bytes of a coded block's payload.
template <typename Strip>
constexpr std::size_t most_payload_bytes() {
  return kStripTable + kStrips * Strip::bound(kStripBytes / sizeof(typename Strip::Word));
}

/// Of a block of so many bytes.
constexpr std::size_t strip_bytes(std::size_t bytes, std::size_t strip) {
  const std::size_t left = bytes - strip * kStripBytes;
  return left < kStripBytes ? left : kStripBytes;
}

/// Codes a block of whole values, 64 KiB at most; returns the bytes of the payload. `out` has room
/// for `most_payload_bytes`.
template <typename Strip, typename Warp>
std::size_t encode_block(Warp warp, const std::byte* in, std::size_t bytes,
                         const Settings& settings, std::byte* out) {
  using Word = typename Strip::Word;
  std::uint16_t units[kStripTable / 2] = {};
  std::size_t end = kStripTable;
  for (std::size_t strip = 0; strip * kStripBytes < bytes; ++strip) {
    const std::size_t size = strip_bytes(bytes, strip);
    const auto* values = reinterpret_cast<const Word*>(in + strip * kStripBytes);
    auto* to = reinterpret_cast<std::uint8_t*>(out + end);
    const auto count = static_cast<std::uint32_t>(size / sizeof(Word));
    std::uint32_t used = Strip::encode(warp, values, count, settings, to, Strip::bound(count));
    while (used % kStripUnit != 0) to[used++] = 0;
    units[strip] = static_cast<std::uint16_t>(used / kStripUnit);
    end += used;
  }
  std::memcpy(out, units, sizeof units);
  return end;
}

/// Decodes what `encode_block` made of so many bytes; false where `payload` is nothing of the kind.
template <typename Strip, typename Warp>
bool decode_block(Warp warp, const std::byte* payload, std::size_t payload_bytes,
                  const Settings& settings, std::byte* out, std::size_t bytes) {
  using Word = typename Strip::Word;
  std::uint16_t units[kStripTable / 2];
  if (payload_bytes < sizeof units) return false;
  std::memcpy(units, payload, sizeof units);
  std::size_t begin = kStripTable;
  for (std::size_t strip = 0; strip * kStripBytes < bytes; ++strip) {
    const std::size_t size = strip_bytes(bytes, strip);
    const std::size_t used = units[strip] * kStripUnit;
    if (begin + used > payload_bytes) return false;
    ValuesOut<Word> to{reinterpret_cast<Word*>(out + strip * kStripBytes)};
    if (!Strip::decode(warp, reinterpret_cast<const std::uint8_t*>(payload + begin),
                       static_cast<std::uint32_t>(used), settings, to,
                       static_cast<std::uint32_t>(size / sizeof(Word))))
      return false;
    begin += used;
  }
  return begin == payload_bytes;
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
