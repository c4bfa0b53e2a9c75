#include "compress/host_strips.hpp"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lanescope::compress {

namespace {

#if defined(__x86_64__)
bool has_lzcnt() {
  unsigned a, b, c = 0, d;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

// The instructions for which CMakeLists.txt has these compiled.

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_lzcnt();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni");
}
#else
bool has_avx2() {
  return false;
}
bool has_avx512() {
  return false;
}
#endif

struct Possible {
  std::array<const HostStrips*, 3> all{any_cpu_host_strips()};
  std::size_t count = 1;

  Possible() {
    if (avx2_host_strips() != nullptr && has_avx2()) all[count++] = avx2_host_strips();
    if (avx512_host_strips() != nullptr && has_avx512()) all[count++] = avx512_host_strips();
  }
};

}  // namespace

std::span<const HostStrips* const> possible_host_strips() {
  static const Possible possible;
  return {possible.all.data(), possible.count};
}

const HostStrips& host_strips() {
  return *possible_host_strips().back();
}

}  // namespace lanescope::compress
