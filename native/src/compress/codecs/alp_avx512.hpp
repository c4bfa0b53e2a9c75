#pragma once

#include <cstdint>

#include "compress/avx512.hpp"
#include "compress/blocks.hpp"
#include "compress/codecs/alp_decimals.hpp"
#include "compress/lanes.hpp"

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

/// What `Decimal` does, to a vector of 64 bytes at once: compilers do not find that out.
template <typename Word>
struct DecimalVectors {
  using Code = typename Decimal<Word>::Code;

  /// Stores the codes of `count` values, a multiple of 32, and returns what is found of them;
  /// `ahead` also brings what lies a strip behind them near.
  template <bool ahead>
  static FoundCodes<Code> codes_of(const Word* in, std::uint32_t count, const DecimalPower& power,
                                   Code* codes) {
    const Powers powers(power);
    __m512i most = _mm512_setzero_si512(), least = _mm512_setzero_si512();
    std::uint32_t good = 0;
    for (std::uint32_t i = 0; i < count; i += kAtOnce) {
      const __m512i code = code_of(in + i, powers);
      if constexpr (ahead) bring_near(in + i);
      _mm512_storeu_si512(codes + i, code);
      most = larger(most, code);
      least = larger(least, kWide ? _mm512_sub_epi64(_mm512_setzero_si512(), code)
                                  : _mm512_sub_epi32(_mm512_setzero_si512(), code));
      // One value comes back from 0, too, and is an exception all the same: others are told by it.
      const auto other = static_cast<std::uint32_t>(kWide ? _mm512_test_epi64_mask(code, code)
                                                          : _mm512_test_epi32_mask(code, code));
      good += static_cast<std::uint32_t>(_mm_popcnt_u32(other));
    }
    return {largest(most), largest(least), good};
  }

  /// Bit l tells whether code l of a row of 32 is 0.
  static std::uint32_t zeros(const Code* row) {
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < 32; i += kAtOnce) {
      const __m512i codes = _mm512_loadu_si512(row + i);
      const auto mask = static_cast<std::uint32_t>(kWide ? _mm512_testn_epi64_mask(codes, codes)
                                                         : _mm512_testn_epi32_mask(codes, codes));
      found |= mask << i;
    }
    return found;
  }

 private:
  static constexpr bool kWide = sizeof(Word) == 8;
  static constexpr std::uint32_t kAtOnce = 64 / sizeof(Word);

  /// CPUs do so by themselves only up to the end of a page, and not while codes are stored. What
  /// lies there need not exist.
  static void bring_near(const Word* values) {
    const auto at = reinterpret_cast<std::uintptr_t>(values) + kStripBytes;
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }

  struct Powers {
    __m512d up, down, coarse, rest;
    explicit Powers(const DecimalPower& power)
        : up(_mm512_set1_pd(power.up)),
          down(_mm512_set1_pd(power.down)),
          coarse(_mm512_set1_pd(power.coarse)),
          rest(_mm512_set1_pd(power.rest)) {}
  };

  /// Codes, 0 for values that do not come back from them.
  static __m512i code_of(const std::uint64_t* in, const Powers& powers) {
    const __m512d values = _mm512_loadu_pd(in), zero = _mm512_set1_pd(Decimal<Word>::kZero);
    const __m512d sum = _mm512_add_pd(_mm512_mul_pd(values, powers.up), zero);
    const __m512d integer = _mm512_sub_pd(sum, zero);
    const __m512d back =
        _mm512_add_pd(_mm512_mul_pd(integer, powers.coarse), _mm512_mul_pd(integer, powers.rest));
    const __m512i top = _mm512_set1_epi64(static_cast<long long>(Decimal<Word>::kTop));
    const __m512i code = _mm512_sub_epi64(_mm512_castpd_si512(sum), top);
    const __mmask8 same =
        _mm512_cmpeq_epi64_mask(_mm512_castpd_si512(back), _mm512_castpd_si512(values));
    const __mmask8 is = _mm512_mask_cmplt_epu64_mask(same, code, _mm512_set1_epi64(1LL << 52));
    return _mm512_maskz_mov_epi64(is, code);
  }

  /// Of 16 floats, as two times 8 doubles.
  static __m512i code_of(const std::uint32_t* in, const Powers& powers) {
    const __m512d zero = _mm512_set1_pd(Decimal<Word>::kZero);
    __m512i sums[2];
    __m256i back[2];
    for (int half = 0; half < 2; ++half) {
      const __m256 values = _mm256_loadu_ps(reinterpret_cast<const float*>(in + 8 * half));
      const __m512d sum = _mm512_add_pd(_mm512_mul_pd(_mm512_cvtps_pd(values), powers.up), zero);
      const __m512d integer = _mm512_sub_pd(sum, zero);
      sums[half] = _mm512_castpd_si512(sum);
      back[half] = _mm256_castps_si256(_mm512_cvtpd_ps(_mm512_mul_pd(integer, powers.down)));
    }
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i code = _mm512_permutex2var_epi32(sums[0], even, sums[1]);
    const __m512i upper = _mm512_permutex2var_epi32(sums[0], odd, sums[1]);
    const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(back[0]), back[1], 1);
    const __mmask16 same = _mm512_cmpeq_epi32_mask(all, _mm512_loadu_si512(in));
    const __m512i top = _mm512_set1_epi32(static_cast<int>(Decimal<Word>::kTop >> 32));
    const __mmask16 is = _mm512_mask_cmpeq_epi32_mask(same, upper, top);
    return _mm512_maskz_mov_epi32(is, code);
  }

  static __m512i larger(__m512i one, __m512i other) {
    return kWide ? _mm512_max_epu64(one, other) : _mm512_max_epu32(one, other);
  }

  static Code largest(__m512i codes) {
    if constexpr (kWide)
      return _mm512_reduce_max_epu64(codes);
    else
      return _mm512_reduce_max_epu32(codes);
  }
};

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
