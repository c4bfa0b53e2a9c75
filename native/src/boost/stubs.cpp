#include "boost/stubs.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "boost/batch.hpp"
#include "boost/settings.hpp"
#include "boost/stub_code.hpp"
#include "inject/same_errno.hpp"
#include "intercept/real_dlsym.hpp"

extern "C" {

__attribute__((visibility("hidden"), used)) std::atomic<unsigned char> lanescope_boost_run{0};

/// Where a stub's call goes on; nowhere: it returns the error. In two registers.
struct LanescopeStubGoesOn {
  void* function;
  std::uintptr_t error;
};

/// Where the call of each stub goes.
__attribute__((visibility("hidden"), used)) void* lanescope_stub_functions[LANESCOPE_STUBS] = {};

extern const char lanescope_first_stub __attribute__((visibility("hidden")));

__attribute__((visibility("hidden"), used)) LanescopeStubGoesOn
lanescope_stub_goes_on(void** function) {
  using namespace lanescope;
  const inject::SameErrno guard;
  if (lanescope_boost_run.load() != 0)
    if (const CUresult failed = boost::settle(); failed != CUDA_SUCCESS)
      return {nullptr, static_cast<std::uintptr_t>(failed)};
  void* found = __atomic_load_n(function, __ATOMIC_ACQUIRE);
  if (found == reinterpret_cast<void*>(&lanescope_stub_settles)) {
    const char* const symbol = lanescope_stub_symbol(function);
    found = intercept::real_dlsym(RTLD_NEXT, symbol);
    if (found == nullptr) found = intercept::driver_symbol(symbol);
    if (found == nullptr) return {nullptr, CUDA_ERROR_NOT_INITIALIZED};
    __atomic_store_n(function, found, __ATOMIC_RELEASE);
  }
  return {found, 0};
}

}  // extern "C"

// All arguments that registers carry are saved, C++ says where to go on, and the function finds its
// arguments on the stack where the caller has put them.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl lanescope_stub_settles
  .hidden lanescope_stub_settles
  .type lanescope_stub_settles, @function
lanescope_stub_settles:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  andq $-16, %rsp
  subq $192, %rsp
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movq %r10, 56(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movq %r11, %rdi
  call lanescope_stub_goes_on
  testq %rax, %rax
  je 1f
  movq %rax, %r11
  movq (%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movq 56(%rsp), %r10
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  .cfi_remember_state
  .cfi_def_cfa %rsp, 8
  jmpq *%r11
1:
  .cfi_restore_state
  movq %rdx, %rax
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size lanescope_stub_settles, .-lanescope_stub_settles
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl lanescope_stub_settles
  .hidden lanescope_stub_settles
  .type lanescope_stub_settles, %function
lanescope_stub_settles:
  stp x29, x30, [sp, #-224]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov x0, x17
  bl lanescope_stub_goes_on
  cbz x0, 1f
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  br x16
1:
  mov x0, x1
  ldp x29, x30, [sp], #224
  ret
  .size lanescope_stub_settles, .-lanescope_stub_settles
)");
#endif

asm(R"(
  .text
  .balign 32
  .globl lanescope_first_stub
  .hidden lanescope_first_stub
lanescope_first_stub:
  .set lanescope_stub_number, 0
  .rept )" LANESCOPE_TEXT(LANESCOPE_STUBS) "\n"  //
    LANESCOPE_STUB("lanescope_stub_functions + 8 * lanescope_stub_number") R"(
  .set lanescope_stub_number, lanescope_stub_number + 1
  .endr
)");

namespace lanescope::boost {

namespace {

/// What tells nothing of what is in memory or in streams, and changes nothing that a run relies on:
/// programs and CUDA's runtime call these between copies.
constexpr std::string_view kTellNothing[] = {
    "cuCtxGetApiVersion",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetFlags",
    "cuCtxGetId",
    "cuCtxGetStreamPriorityRange",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetByPCIBusId",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxGetState",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuInit",
    "cuMemGetAddressRange",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCtx",
    "cuStreamGetDevice",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
};

/// @return a symbol without its version and what says that each thread has a default stream.
std::string_view bare(std::string_view symbol) noexcept {
  return symbol.substr(0, symbol.find('_'));
}

bool is_of_driver(std::string_view name) noexcept {
  constexpr std::string_view kBegin = "cu";
  return name.starts_with(kBegin) && name.size() > kBegin.size() && name[kBegin.size()] >= 'A' &&
         name[kBegin.size()] <= 'Z';
}

void* stub_of(void* function) noexcept {
  static std::mutex mutex;
  static std::size_t used = 0;
  const std::lock_guard lock(mutex);
  void** const begin = lanescope_stub_functions;
  const auto at = static_cast<std::size_t>(std::find(begin, begin + used, function) - begin);
  if (at == used) {
    if (used == LANESCOPE_STUBS) {
      forbid_batches();
      return function;
    }
    __atomic_store_n(&begin[used++], function, __ATOMIC_RELEASE);
  }
  return const_cast<char*>(&lanescope_first_stub) + at * LANESCOPE_STUB_BYTES;
}

}  // namespace

bool are_batches_wanted() noexcept {
  return lanescope_has_named_stubs && settings().batch;
}

void* behind_settling(std::string_view name, void* function) noexcept {
  if (!are_batches_wanted() || function == nullptr || !is_of_driver(name)) return function;
  // By another form of it functions may be found that have no stub.
  if (name.starts_with("cuGetProcAddress")) forbid_batches();
  if (std::ranges::find(kTellNothing, bare(name)) != std::ranges::end(kTellNothing))
    return function;
  return stub_of(function);
}

}  // namespace lanescope::boost
