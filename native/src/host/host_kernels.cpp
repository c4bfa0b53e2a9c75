#include "lanescope/host_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#define LANESCOPE_X86 1
#endif

namespace lanescope {

namespace {

void copy_cached(double* __restrict a, const double* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i];
}

void triad_cached(double* __restrict a, const double* __restrict b, const double* __restrict c,
                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + kTriadScalar * c[i];
}

#ifdef LANESCOPE_X86

// One 64-byte line an iteration, so that each line leaves the write-combining buffer whole.
// AVX and no wider: memory, not the width of a store, sets the pace, and every x86-64 CPU of
// the last ten years has it.

__attribute__((target("avx"))) void copy_streaming(double* a, const double* b, std::size_t lines) {
  for (std::size_t i = 0; i < lines * 8; i += 8) {
    const __m256d first = _mm256_loadu_pd(b + i), second = _mm256_loadu_pd(b + i + 4);
    _mm256_stream_pd(a + i, first);
    _mm256_stream_pd(a + i + 4, second);
  }
}

__attribute__((target("avx"))) void triad_streaming(double* a, const double* b, const double* c,
                                                    std::size_t lines) {
  const __m256d s = _mm256_set1_pd(kTriadScalar);
  auto value = [&](std::size_t i) __attribute__((target("avx"))) {
    return _mm256_add_pd(_mm256_loadu_pd(b + i), _mm256_mul_pd(s, _mm256_loadu_pd(c + i)));
  };
  for (std::size_t i = 0; i < lines * 8; i += 8) {
    const __m256d first = value(i), second = value(i + 4);
    _mm256_stream_pd(a + i, first);
    _mm256_stream_pd(a + i + 4, second);
  }
}

#endif

}  // namespace

bool has_streaming_stores() {
#ifdef LANESCOPE_X86
  return __builtin_cpu_supports("avx");
#else
  return false;
#endif
}

void run_kernel(Operation operation, Stores stores, double* a, const double* b, const double* c,
                std::size_t count) {
  std::size_t done = 0;
#ifdef LANESCOPE_X86
  if (stores == Stores::streaming) {
    const std::size_t lines = count / 8;
    if (operation == Operation::copy)
      copy_streaming(a, b, lines);
    else
      triad_streaming(a, b, c, lines);
    _mm_sfence();  // the pass ends when its stores have left the core
    done = lines * 8;
  }
#else
  static_cast<void>(stores);
#endif
  if (operation == Operation::copy)
    copy_cached(a + done, b + done, count - done);
  else
    triad_cached(a + done, b + done, c + done, count - done);
}

}  // namespace lanescope
