#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512VBMI__) && defined(__GFNI__)
#include "compress/avx512.hpp"
#endif

#include "compress/lanes.hpp"

// 32 x 32 bits turned over by a CPU's vectors. Compilers for GPUs do not read this.

namespace lanescope::compress {
inline namespace LANESCOPE_CPU {

#if defined(__AVX512VBMI__) && defined(__GFNI__)

/// Where each byte comes from or goes to.
struct TransposeTables {
  std::uint8_t gather[128];
  std::uint8_t scatter[128];
};

constexpr TransposeTables transpose_tables() {
  TransposeTables tables{};
  for (int plane = 0; plane < 4; ++plane)    // of bytes of the rows
    for (int eight = 0; eight < 4; ++eight)  // of the rows
      for (int i = 0; i < 8; ++i) {
        const int square = (plane * 4 + eight) * 8 + i;
        // The instruction takes the rows of a square of 8 x 8 bits from the last on.
        tables.gather[square] = static_cast<std::uint8_t>((8 * eight + 7 - i) * 4 + plane);
        tables.scatter[(8 * plane + i) * 4 + eight] = static_cast<std::uint8_t>(square);
      }
  return tables;
}

/// Bytes are brought together to squares of 8 x 8 bits, squares turned over by one instruction, and
/// their bytes brought to where they belong.
inline void transpose_bits(const std::uint32_t* rows, std::uint32_t* out) {
  alignas(64) static constexpr TransposeTables kTables = transpose_tables();
  const __m512i first = _mm512_loadu_si512(rows), second = _mm512_loadu_si512(rows + 16);
  const __m512i ones = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201U));
  const auto squares = [&](const std::uint8_t* from) {
    const __m512i bytes = _mm512_permutex2var_epi8(first, _mm512_load_si512(from), second);
    return _mm512_gf2p8affine_epi64_epi8(ones, bytes, 0);
  };
  const __m512i low = squares(kTables.gather), high = squares(kTables.gather + 64);
  const auto words = [&](const std::uint8_t* from) {
    return _mm512_permutex2var_epi8(low, _mm512_load_si512(from), high);
  };
  _mm512_storeu_si512(out, words(kTables.scatter));
  _mm512_storeu_si512(out + 16, words(kTables.scatter + 64));
}

#else

#if defined(__clang__) || __GNUC__ >= 12
#define LANESCOPE_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LANESCOPE_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, decltype(a){__VA_ARGS__})
#endif

/// Swaps blocks of `apart` columns between rows that lie so far apart.
template <int apart, typename Vector>
inline void swap_columns(Vector& upper, Vector& lower) {
  constexpr std::uint32_t kMask = 0xFFFFFFFFU / ((1U << apart) + 1);
  const Vector swapped = ((upper >> apart) ^ lower) & kMask;
  upper ^= swapped << apart;
  lower ^= swapped;
}

/// Swaps columns between rows of two vectors of four, or twice four, which begin eight or four rows
/// apart.
template <typename Vector>
inline void swap_within(Vector& x, Vector& y) {
  Vector a, b;
#ifdef __AVX2__
  a = LANESCOPE_SHUFFLE(x, y, 0, 1, 2, 3, 8, 9, 10, 11);
  b = LANESCOPE_SHUFFLE(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
  swap_columns<4>(a, b);
  x = LANESCOPE_SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  y = LANESCOPE_SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  swap_columns<2>(x, y);
  a = LANESCOPE_SHUFFLE(x, y, 0, 2, 8, 10, 4, 6, 12, 14);
  b = LANESCOPE_SHUFFLE(x, y, 1, 3, 9, 11, 5, 7, 13, 15);
  swap_columns<1>(a, b);
  x = LANESCOPE_SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  y = LANESCOPE_SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  a = LANESCOPE_SHUFFLE(x, y, 0, 1, 8, 9, 4, 5, 12, 13);
  b = LANESCOPE_SHUFFLE(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
  x = LANESCOPE_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  y = LANESCOPE_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
  swap_columns<4>(x, y);
  a = LANESCOPE_SHUFFLE(x, y, 0, 1, 4, 5);
  b = LANESCOPE_SHUFFLE(x, y, 2, 3, 6, 7);
  swap_columns<2>(a, b);
  x = LANESCOPE_SHUFFLE(a, b, 0, 2, 4, 6);
  y = LANESCOPE_SHUFFLE(a, b, 1, 3, 5, 7);
  swap_columns<1>(x, y);
  a = LANESCOPE_SHUFFLE(x, y, 0, 4, 1, 5);
  b = LANESCOPE_SHUFFLE(x, y, 2, 6, 3, 7);
  x = LANESCOPE_SHUFFLE(a, b, 0, 1, 4, 5);
  y = LANESCOPE_SHUFFLE(a, b, 2, 3, 6, 7);
#endif
}
#undef LANESCOPE_SHUFFLE

/// Five steps, each of which swaps blocks of half the size, as long as possible between vectors.
inline void transpose_bits(const std::uint32_t* rows, std::uint32_t* out) {
#ifdef __AVX2__
  constexpr int kWide = 8;
#else
  constexpr int kWide = 4;
#endif
  typedef std::uint32_t Vector __attribute__((vector_size(4 * kWide)));
  constexpr int kVectors = 32 / kWide;
  Vector v[kVectors];
  std::memcpy(v, rows, sizeof v);
  for (int i = 0; i < kVectors / 2; ++i) swap_columns<16>(v[i], v[i + kVectors / 2]);
  for (int i = 0; i < kVectors; ++i)
    if (i / (kVectors / 4) % 2 == 0) swap_columns<8>(v[i], v[i + kVectors / 4]);
  for (int i = 0; i < kVectors; i += 2) swap_within(v[i], v[i + 1]);
  std::memcpy(out, v, sizeof v);
}

#endif

}  // namespace LANESCOPE_CPU
}  // namespace lanescope::compress
