#pragma once

#include <cstdint>

#include "compress/avx512.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// GFC's rows of 32 values by vectors of 64 bytes: one instruction takes out the bytes that a mask
/// names, and another one puts them back.
template <typename Word>
struct GfcVectors {
  static constexpr bool kWide = sizeof(Word) == 8;
  static constexpr int kValues = 64 / sizeof(Word);  // Of a vector.
  static constexpr int kVectors = 32 / kValues;
  static constexpr std::uint32_t kNibbles = 16;

  /// Stores 32 values less `predicted`, and returns the number of bytes; no more are written than
  /// 32 values can take.
  static std::uint32_t encode(const Word* row, const Word* predicted, std::uint8_t* out) {
    alignas(32) std::uint8_t nibbles[32];
    std::uint32_t at = kNibbles;
    for (int i = 0; i < kVectors; ++i) {
      const __m512i residual = subtract(load(row + i * kValues), load(predicted + i * kValues));
      const __m512i sign =
          kWide ? _mm512_srli_epi64(residual, 63) : _mm512_srli_epi32(residual, 31);
      const __m512i magnitude = negated(residual, sign);
      const __m512i code = code_of(magnitude);
      const __mmask64 kept = kept_bytes(code);
      _mm512_storeu_si512(out + at, _mm512_maskz_compress_epi8(kept, magnitude));
      at += static_cast<std::uint32_t>(_mm_popcnt_u64(kept));
      const __m512i top = kWide ? _mm512_slli_epi64(sign, 3) : _mm512_slli_epi32(sign, 3);
      store_low_bytes(nibbles + i * kValues, _mm512_or_si512(code, top));
    }
    const __m256i each = _mm256_load_si256(reinterpret_cast<const __m256i*>(nibbles));
    const __m256i pairs = _mm256_maddubs_epi16(each, _mm256_set1_epi16(0x1001));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtepi16_epi8(pairs));
    return at;
  }

  /// Decodes 32 values into `out` and `last`, and returns the number of bytes; up to as many are
  /// read as 32 values can take. Adds to `wrong` what `encode` does not make.
  static std::uint32_t decode(const std::uint8_t* in, const Word* predicted, Word* last, Word* out,
                              std::uint32_t& wrong) {
    const __m256i pairs =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
    const __m256i each =
        _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi16(0x000F)),
                        _mm256_slli_epi16(_mm256_and_si256(pairs, _mm256_set1_epi16(0x00F0)), 4));
    alignas(32) std::uint8_t nibbles[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(nibbles), each);
    std::uint32_t at = kNibbles, bad = 0;
    for (int i = 0; i < kVectors; ++i) {
      const __m512i nibble = load_low_bytes(nibbles + i * kValues);
      const __m512i code = _mm512_and_si512(nibble, same(7));
      const __mmask64 kept = kept_bytes(code);
      const __m512i magnitude = _mm512_maskz_expand_epi8(kept, _mm512_loadu_si512(in + at));
      at += static_cast<std::uint32_t>(_mm_popcnt_u64(kept));
      const __m512i sign = kWide ? _mm512_srli_epi64(nibble, 3) : _mm512_srli_epi32(nibble, 3);
      const __m512i residual = negated(magnitude, sign);
      const __m512i least = subtract(magnitude, sign);  // Its highest bit: the other sign.
      bad |= kWide
                 ? _mm512_cmpneq_epi64_mask(code_of(magnitude), code) | _mm512_movepi64_mask(least)
                 : _mm512_cmpneq_epi32_mask(code_of(magnitude), code) | _mm512_movepi32_mask(least);
      const __m512i values = add(load(predicted + i * kValues), residual);
      _mm512_storeu_si512(last + i * kValues, values);
      _mm512_storeu_si512(out + i * kValues, values);
    }
    wrong |= bad;
    return at;
  }

 private:
  static __m512i load(const Word* from) { return _mm512_loadu_si512(from); }

  static __m512i same(int value) {
    return kWide ? _mm512_set1_epi64(value) : _mm512_set1_epi32(value);
  }

  static __m512i add(__m512i a, __m512i b) {
    return kWide ? _mm512_add_epi64(a, b) : _mm512_add_epi32(a, b);
  }

  static __m512i subtract(__m512i a, __m512i b) {
    return kWide ? _mm512_sub_epi64(a, b) : _mm512_sub_epi32(a, b);
  }

  /// Where `sign` is 1, not 0, the negative.
  static __m512i negated(__m512i a, __m512i sign) {
    const __m512i all = subtract(_mm512_setzero_si512(), sign);
    return add(_mm512_xor_si512(a, all), sign);
  }

  /// As `GfcResidual` has it.
  static __m512i code_of(__m512i magnitude) {
    if constexpr (kWide) {
      const __m512i zeros = _mm512_srli_epi64(_mm512_lzcnt_epi64(magnitude), 3);
      const __m512i bytes = subtract(same(8), zeros);
      return _mm512_mask_sub_epi64(bytes, _mm512_cmpgt_epi64_mask(bytes, same(2)), bytes, same(1));
    } else {
      return subtract(same(4), _mm512_srli_epi32(_mm512_lzcnt_epi32(magnitude), 3));
    }
  }

  /// A bit for each byte that is stored.
  static __mmask64 kept_bytes(__m512i code) {
    if constexpr (kWide) {
      const __m512i first =
          _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808080808080808, 0x0000000000000000));
      const __m512i bytes =
          _mm512_mask_add_epi64(code, _mm512_cmpgt_epi64_mask(code, same(1)), code, same(1));
      return _mm512_cmplt_epu8_mask(_mm512_set1_epi64(0x0706050403020100),
                                    _mm512_shuffle_epi8(bytes, first));
    } else {
      const __m512i first =
          _mm512_broadcast_i32x4(_mm_set_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0x00000000));
      return _mm512_cmplt_epu8_mask(_mm512_set1_epi32(0x03020100),
                                    _mm512_shuffle_epi8(code, first));
    }
  }

  static void store_low_bytes(std::uint8_t* out, __m512i values) {
    if constexpr (kWide)
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm512_cvtepi64_epi8(values));
    else
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(values));
  }

  static __m512i load_low_bytes(const std::uint8_t* in) {
    if constexpr (kWide)
      return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
    else
      return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
