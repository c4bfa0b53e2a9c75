#pragma once

#include <cstdint>

#include "compress/avx512.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// Zero-value compression of groups by vectors of 64 bytes: one instruction takes out the values
/// that a mask names, and another one puts them back.
template <typename Word>
struct ZvcVectors {
  static constexpr std::uint32_t kReadsBeyond = 64;  ///< Bytes after the last value.

  /// Codes a group of `ZvcStrip`; `out` has room for all of its values. Returns the bytes of those
  /// that are not 0.
  static std::uint32_t encode(const Word* in, std::uint8_t* out, std::uint32_t* masks) {
    std::uint8_t* to = out;
    for (int part = 0; part < kParts; ++part) {
      std::uint32_t mask = 0;
      for (int i = 0; i < kVectors; ++i) {
        const __m512i units = _mm512_loadu_si512(in + i * kUnits * kParts);
        const std::uint32_t kept = put(units, part, to);
        mask |= kept << (i * kUnits);
        to += static_cast<std::uint32_t>(_mm_popcnt_u32(kept)) * sizeof(Word);
      }
      masks[part] = mask;
    }
    return static_cast<std::uint32_t>(to - out);
  }

  /// Decodes what `encode` made; `kReadsBeyond` bytes behind it can be read.
  static void decode(const std::uint8_t* in, const std::uint32_t* masks, Word* out) {
    __m512i units[kVectors];
    for (int part = 0; part < kParts; ++part)
      for (int i = 0; i < kVectors; ++i) {
        const std::uint32_t kept = masks[part] >> (i * kUnits) & kAllUnits;
        const __m512i values = take(in, kept, part);
        units[i] = part == 0 ? values : _mm512_or_si512(units[i], values);
        in += static_cast<std::uint32_t>(_mm_popcnt_u32(kept)) * sizeof(Word);
      }
    for (int i = 0; i < kVectors; ++i) _mm512_storeu_si512(out + i * kUnits * kParts, units[i]);
  }

 private:
  static constexpr int kParts = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;  // Values of a unit.
  static constexpr int kUnits = sizeof(Word) == 8 ? 8 : 16;               // Of a vector.
  static constexpr int kVectors = 32 / kUnits;
  static constexpr std::uint32_t kAllUnits = (1U << kUnits) - 1;

  /// Stores one value of each unit where it is not 0, and returns which are not.
  static std::uint32_t put(__m512i units, int part, std::uint8_t* to) {
    if constexpr (sizeof(Word) == 1) {
      const __m128i values = _mm512_cvtepi32_epi8(shifted_down(units, 8 * part));
      const __mmask16 kept = _mm_test_epi8_mask(values, values);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_maskz_compress_epi8(kept, values));
      return kept;
    } else if constexpr (sizeof(Word) == 2) {
      const __m256i values = _mm512_cvtepi32_epi16(shifted_down(units, 16 * part));
      const __mmask16 kept = _mm256_test_epi16_mask(values, values);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_maskz_compress_epi16(kept, values));
      return kept;
    } else if constexpr (sizeof(Word) == 4) {
      const __mmask16 kept = _mm512_test_epi32_mask(units, units);
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(kept, units));
      return kept;
    } else {
      const __mmask8 kept = _mm512_test_epi64_mask(units, units);
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(kept, units));
      return kept;
    }
  }

  /// Units with one of their values each.
  static __m512i take(const std::uint8_t* in, std::uint32_t kept, int part) {
    if constexpr (sizeof(Word) == 1) {
      const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
      const __m128i values = _mm_maskz_expand_epi8(static_cast<__mmask16>(kept), stored);
      return shifted_up(_mm512_cvtepu8_epi32(values), 8 * part);
    } else if constexpr (sizeof(Word) == 2) {
      const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
      const __m256i values = _mm256_maskz_expand_epi16(static_cast<__mmask16>(kept), stored);
      return shifted_up(_mm512_cvtepu16_epi32(values), 16 * part);
    } else if constexpr (sizeof(Word) == 4) {
      return _mm512_maskz_expand_epi32(static_cast<__mmask16>(kept), _mm512_loadu_si512(in));
    } else {
      return _mm512_maskz_expand_epi64(static_cast<__mmask8>(kept), _mm512_loadu_si512(in));
    }
  }

  static __m512i shifted_down(__m512i units, int bits) {
    return _mm512_srl_epi32(units, _mm_cvtsi32_si128(bits));
  }

  static __m512i shifted_up(__m512i units, int bits) {
    return _mm512_sll_epi32(units, _mm_cvtsi32_si128(bits));
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
