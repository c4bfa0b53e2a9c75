#include "host/cache_flush.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "error.hpp"

namespace lanescope {

namespace {

[[maybe_unused]] std::uintptr_t line_of(const void* data, std::size_t line_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) / line_bytes * line_bytes;
}

#if defined(__x86_64__)

constexpr std::size_t kLineBytes = 64;

bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 23)) != 0;
}

/// Many at once, where `clflush` does one after the other.
__attribute__((target("clflushopt"))) void flush_many(std::uintptr_t first, std::uintptr_t end) {
  for (std::uintptr_t line = first; line < end; line += kLineBytes)
    _mm_clflushopt(reinterpret_cast<void*>(line));
}

void flush_singly(std::uintptr_t first, std::uintptr_t end) {
  for (std::uintptr_t line = first; line < end; line += kLineBytes)
    _mm_clflush(reinterpret_cast<const void*>(line));
}

#elif defined(__aarch64__)

/// The shortest line of all caches, as the CPU tells.
std::size_t line_bytes() {
  std::uint64_t type = 0;
  asm("mrs %0, ctr_el0" : "=r"(type));
  return std::size_t{4} << ((type >> 16) & 15);
}

#endif

}  // namespace

bool can_flush_caches() {
#if defined(__x86_64__) || defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

void flush_from_caches(const void* data, std::size_t bytes) {
  [[maybe_unused]] const auto end = reinterpret_cast<std::uintptr_t>(data) + bytes;
#if defined(__x86_64__)
  static const bool many = has_clflushopt();
  (many ? flush_many : flush_singly)(line_of(data, kLineBytes), end);
#elif defined(__aarch64__)
  static const std::size_t step = line_bytes();
  for (std::uintptr_t line = line_of(data, step); line < end; line += step)
    asm volatile("dc civac, %0" ::"r"(line) : "memory");
#else
  throw Error("flush_from_caches", 0, "no cache flush", "no instruction is known");
#endif
}

void finish_flushes() {
#if defined(__x86_64__)
  _mm_mfence();
#elif defined(__aarch64__)
  asm volatile("dsb sy" ::: "memory");
#endif
}

}  // namespace lanescope
