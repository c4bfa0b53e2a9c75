#include "host/host_kernels.hpp"

#include "error.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#define LANESCOPE_X86 1
#endif

namespace lanescope {

namespace {

template <Operation operation>
void run_cached(double* __restrict a, const double* __restrict b, const double* __restrict c,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    a[i] = result_of(operation, b[i], reads_two(operation) ? c[i] : 0.0);
}

#ifdef LANESCOPE_X86

// One 64-byte line an iteration, so that each line leaves the write-combining buffer whole.
// AVX and no wider: memory, not the width of a store, sets the pace, and every x86-64 CPU of
// the last ten years has it.
template <Operation operation>
__attribute__((target("avx"))) void run_streaming(double* a, const double* b, const double* c,
                                                  std::size_t lines) {
  const __m256d s = _mm256_set1_pd(kScalar);
  auto value = [&](std::size_t i) __attribute__((target("avx"))) {
    const __m256d first = _mm256_loadu_pd(b + i);
    if constexpr (operation == Operation::scale) return _mm256_mul_pd(s, first);
    if constexpr (operation == Operation::add) return _mm256_add_pd(first, _mm256_loadu_pd(c + i));
    if constexpr (operation == Operation::triad)
      return _mm256_add_pd(first, _mm256_mul_pd(s, _mm256_loadu_pd(c + i)));
    return first;
  };
  for (std::size_t i = 0; i < lines * 8; i += 8) {
    const __m256d first = value(i), second = value(i + 4);
    _mm256_stream_pd(a + i, first);
    _mm256_stream_pd(a + i + 4, second);
  }
}

#endif

template <Operation operation>
void run(Stores stores, double* a, const double* b, const double* c, std::size_t count) {
  std::size_t done = 0;
#ifdef LANESCOPE_X86
  if (stores == Stores::streaming) {
    const std::size_t lines = count / 8;
    run_streaming<operation>(a, b, c, lines);
    _mm_sfence();  // the pass ends when its stores have left the core
    done = lines * 8;
  }
#else
  if (stores == Stores::streaming)
    throw Error("run_kernel", 0, "no streaming stores", "no instruction is known");
#endif
  run_cached<operation>(a + done, b + done, reads_two(operation) ? c + done : c, count - done);
}

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
  switch (operation) {
    case Operation::copy:
      return run<Operation::copy>(stores, a, b, c, count);
    case Operation::scale:
      return run<Operation::scale>(stores, a, b, c, count);
    case Operation::add:
      return run<Operation::add>(stores, a, b, c, count);
    case Operation::triad:
      return run<Operation::triad>(stores, a, b, c, count);
  }
}

}  // namespace lanescope
