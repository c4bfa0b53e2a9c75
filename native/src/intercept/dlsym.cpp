// Stands before the C library's dlsym, by which programs and CUDA's runtime look up the driver.
//
// dlsym answers by who calls it, which it sees by its return address. So everything but the
// driver's names goes on to it by a jump, as if nothing stood before it.

#include <cuda.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>

#include <atomic>
#include <cstring>
#include <string_view>

#include "inject/ready.hpp"
#include "inject/same_errno.hpp"
#include "intercept/hooks.hpp"
#include "intercept/in_place_of.hpp"
#include "intercept/real_dlsym.hpp"

using Lookup = void* (*)(void*, const char*);

extern "C" {
__attribute__((visibility("hidden"))) Lookup lanescope_real_dlsym = nullptr;

__attribute__((visibility("hidden"), used)) Lookup lanescope_find_dlsym() {
  // Its version is that of the first glibc of an architecture, and a new one since 2.34. The right
  // one is the first that is tried: a lookup that fails takes memory, and a program's own malloc
  // may be who looks up the C library's here.
#if defined(__x86_64__)
  constexpr const char* kFirst = "GLIBC_2.2.5";
#else
  constexpr const char* kFirst = "GLIBC_2.17";
#endif
  constexpr const char* kSince = "GLIBC_2.34";
  const bool is_new = strverscmp(gnu_get_libc_version(), "2.34") >= 0;
  for (const char* version : {is_new ? kSince : kFirst, is_new ? kFirst : kSince})
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version))
      return lanescope_real_dlsym = reinterpret_cast<Lookup>(found);
  __builtin_trap();  // not glibc, for which this library is not made
}

__attribute__((visibility("hidden"), used)) void* lanescope_driver_dlsym(void* handle,
                                                                         const char* name);
}

// dlsym(handle, name): to lanescope_driver_dlsym where the name begins with "cu" and the handle is
// one of dlopen's, neither RTLD_DEFAULT (0) nor RTLD_NEXT (-1), else to the C library's.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  endbr64
  leaq 1(%rdi), %rax
  cmpq $1, %rax
  jbe 1f
  testq %rsi, %rsi
  je 1f
  cmpb $99, (%rsi)
  jne 1f
  cmpb $117, 1(%rsi)
  jne 1f
  jmp lanescope_driver_dlsym
1:
  movq lanescope_real_dlsym(%rip), %rax
  testq %rax, %rax
  je 2f
  jmp *%rax
2:
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call lanescope_find_dlsym
  addq $8, %rsp
  popq %rsi
  popq %rdi
  jmp *%rax
  .size dlsym, .-dlsym
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  add x9, x0, #1
  cmp x9, #1
  b.ls 1f
  cbz x1, 1f
  ldrb w9, [x1]
  cmp w9, #99
  b.ne 1f
  ldrb w9, [x1, #1]
  cmp w9, #117
  b.ne 1f
  b lanescope_driver_dlsym
1:
  adrp x9, lanescope_real_dlsym
  ldr x9, [x9, :lo12:lanescope_real_dlsym]
  cbz x9, 2f
  br x9
2:
  stp x0, x1, [sp, #-32]!
  str x30, [sp, #16]
  bl lanescope_find_dlsym
  mov x9, x0
  ldr x30, [sp, #16]
  ldp x0, x1, [sp], #32
  br x9
  .size dlsym, .-dlsym
)");
#else
#error "dlsym is written for x86-64 and aarch64 only"
#endif

namespace lanescope::intercept {

namespace {

using Find1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using Find2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

std::atomic<Find1> find1{nullptr};
std::atomic<Find2> find2{nullptr};
constexpr int kSecondFind = 12000;  // the first version of CUDA whose cuGetProcAddress tells more

void wrap_found(const char* name, void** function, int version, cuuint64_t flags);
bool is_own(const void* function) noexcept;

struct Begin {
  static inline std::atomic<decltype(&cuInit)> original{nullptr};

  static CUresult call(unsigned flags) {
    const CUresult result = original.load(std::memory_order_relaxed)(flags);
    if (result != CUDA_SUCCESS) return result;
    const inject::SameErrno guard;
    cuda_has_begun();
    return result;
  }

  static void* in_place_of(void* function) noexcept { return swapped(original, &call, function); }
};

CUresult found1(const char* name, void** function, int version, cuuint64_t flags) {
  const CUresult result = find1.load()(name, function, version, flags);
  if (result == CUDA_SUCCESS) wrap_found(name, function, version, flags);
  return result;
}

CUresult found2(const char* name, void** function, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult* status) {
  const CUresult result = find2.load()(name, function, version, flags, status);
  if (result == CUDA_SUCCESS) wrap_found(name, function, version, flags);
  return result;
}

void* wrapped_find(bool second, void* function) noexcept {
  return second ? swapped(find2, &found2, function) : swapped(find1, &found1, function);
}

void wrap_found(const char* name, void** function, int version, cuuint64_t flags) {
  if (name == nullptr || function == nullptr || *function == nullptr || is_own(*function)) return;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  if (std::string_view(name) == "cuGetProcAddress")
    *function = wrapped_find(version >= kSecondFind, *function);
  else if (std::string_view(name) == "cuGetProcAddress_v2")
    *function = wrapped_find(true, *function);
  else if (std::string_view(name) == "cuInit")
    *function = Begin::in_place_of(*function);
  else
    *function = wrapped_entry(name, version, per_thread, *function);
}

/// @return whether a function is of this library: one of exported.cpp, found where it is first.
bool is_own(const void* function) noexcept {
  return are_together(function, reinterpret_cast<const void*>(&found1));
}

}  // namespace

void* real_dlsym(void* handle, const char* name) noexcept {
  const Lookup real =
      lanescope_real_dlsym != nullptr ? lanescope_real_dlsym : lanescope_find_dlsym();
  return real(handle, name);
}

/// @return what finds the driver's functions behind this library: the dlsym of the next one that
/// stands before the C library's, so that several such libraries each have their turn, or that.
Lookup next_dlsym() noexcept {
  static const Lookup found = reinterpret_cast<Lookup>(real_dlsym(RTLD_NEXT, "dlsym"));
  return found;
}

void* wrapped(std::string_view symbol, void* function) noexcept {
  return symbol == "cuInit" ? Begin::in_place_of(function) : wrapped_symbol(symbol, function);
}

void* driver_symbol(const char* name) noexcept {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);  // held: it stays loaded
  return driver == nullptr ? nullptr : real_dlsym(driver, name);
}

}  // namespace lanescope::intercept

void* lanescope_driver_dlsym(void* handle, const char* name) {
  using namespace lanescope::intercept;
  void* function = next_dlsym()(handle, name);
  if (function == nullptr) return nullptr;
  // of the program itself, where ours are the first: without a driver there are none
  if (is_own(function)) return driver_symbol(name) == nullptr ? nullptr : function;
  if (!is_wanted()) return function;
  const std::string_view symbol(name);
  // What CUDA begins with; nobody looks it up who does not use it at once.
  if (symbol == "cuInit" || symbol.starts_with("cuGetProcAddress"))
    lanescope::inject::wait_until_ready();
  if (symbol == "cuGetProcAddress_v2") return wrapped_find(true, function);
  if (symbol == "cuGetProcAddress") return wrapped_find(false, function);
  return wrapped(symbol, function);
}
