#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/checksum.hpp"
#include "compress/device_blocks.hpp"
#include "compress/difference.hpp"

namespace lanescope::compress {

// What each thread of the kernels for updates does, of so many: 16 bytes at a time, several at
// once. The test of its arithmetic calls it on the host.

/// Sums of bases, and what learns of it where they differ. The kernel that puts differences onto a
/// base looks at them before it writes anything, so that nobody waits for them on the host.
struct BaseCheck {
  const unsigned long long* held = nullptr;  ///< Of the base here; in the device's memory.
  const unsigned long long* sent = nullptr;  ///< Of the sender's; memory that the device reaches.
  unsigned long long given = 0;              ///< Of the sender's, where `sent` is null.
  Fault* fault = nullptr;                    ///< What differing sums are put into.
};

/// `Fault::what` where it is the base.
inline constexpr unsigned int kOtherBase = 5;

inline namespace LANESCOPE_CPU {

struct alignas(16) Unit {
  std::uint64_t low, high;
};

/// The threads that share some work.
struct Share {
  std::size_t thread, threads;
};

inline constexpr std::size_t kUnitsAtOnce = 4;

LANESCOPE_LANES inline std::uint64_t short_word(const std::byte* from, std::size_t bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return word;
}

LANESCOPE_LANES inline void put_short_word(std::byte* to, std::uint64_t word, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
}

LANESCOPE_LANES constexpr std::size_t fewer(std::size_t one, std::size_t other) {
  return one < other ? one : other;
}

/// Combines words of two arrays, aligned to 16 bytes, into a third one, which may be either.
template <typename Combine>
LANESCOPE_LANES void combine_share(Share share, const std::byte* one, const std::byte* other,
                                   std::byte* out, std::size_t bytes, Combine combine) {
  const std::size_t units = bytes / sizeof(Unit);
  const auto* ones = reinterpret_cast<const Unit*>(one);
  const auto* others = reinterpret_cast<const Unit*>(other);
  auto* to = reinterpret_cast<Unit*>(out);
  for (std::size_t i = share.thread; i < units; i += kUnitsAtOnce * share.threads) {
    Unit first[kUnitsAtOnce], second[kUnitsAtOnce];
    LANESCOPE_UNROLL
    for (std::size_t k = 0; k < kUnitsAtOnce; ++k) {
      const std::size_t at = i + k * share.threads;
      if (at >= units) continue;
      first[k] = ones[at];
      second[k] = others[at];
    }
    LANESCOPE_UNROLL
    for (std::size_t k = 0; k < kUnitsAtOnce; ++k) {
      const std::size_t at = i + k * share.threads;
      if (at >= units) continue;
      to[at] = {combine(first[k].low, second[k].low), combine(first[k].high, second[k].high)};
    }
  }
  if (share.thread != 0) return;
  for (std::size_t at = units * sizeof(Unit); at < bytes; at += 8) {
    const std::size_t size = fewer(8, bytes - at);
    put_short_word(out + at, combine(short_word(one + at, size), short_word(other + at, size)),
                   size);
  }
}

LANESCOPE_LANES inline void take_share(Share share, const Differing& differing,
                                       const std::byte* values, const std::byte* base,
                                       std::byte* out, std::size_t bytes) {
  combine_share(share, values, base, out, bytes,
                [=](std::uint64_t value, std::uint64_t of) { return differing.take(value, of); });
}

LANESCOPE_LANES inline void put_share(Share share, const Differing& differing,
                                      const std::byte* differences, const std::byte* base,
                                      std::byte* out, std::size_t bytes) {
  combine_share(share, differences, base, out, bytes,
                [=](std::uint64_t one, std::uint64_t of) { return differing.put(one, of); });
}

/// A part of the sum of the checksum of an array aligned to 16 bytes; the parts add up to it.
LANESCOPE_LANES inline std::uint64_t sum_share(Share share, const std::byte* data,
                                               std::size_t bytes) {
  const std::size_t units = bytes / sizeof(Unit);
  const auto* from = reinterpret_cast<const Unit*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = share.thread; i < units; i += kUnitsAtOnce * share.threads) {
    Unit held[kUnitsAtOnce];
    LANESCOPE_UNROLL
    for (std::size_t k = 0; k < kUnitsAtOnce; ++k)
      if (i + k * share.threads < units) held[k] = from[i + k * share.threads];
    LANESCOPE_UNROLL
    for (std::size_t k = 0; k < kUnitsAtOnce; ++k) {
      const std::size_t at = i + k * share.threads;
      if (at >= units) continue;
      sum += checksum_part(held[k].low, 2 * at) + checksum_part(held[k].high, 2 * at + 1);
    }
  }
  if (share.thread != 0) return sum;
  for (std::size_t at = units * sizeof(Unit); at < bytes; at += 8)
    sum += checksum_part(short_word(data + at, fewer(8, bytes - at)), at / 8);
  return sum + checksum_begin(bytes);
}

/// Whether a slab's differences may be put onto the base: no block of it is damaged, and the base
/// is the sender's; where it is not, one thread says so.
LANESCOPE_LANES inline bool may_put(Share share, const Fault* of_slab, const BaseCheck& check) {
  if (of_slab->blocks != 0) return false;
  if (*check.held == (check.sent != nullptr ? *check.sent : check.given)) return true;
  if (share.thread == 0) *check.fault = {1, 1, kOtherBase};
  return false;
}

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
