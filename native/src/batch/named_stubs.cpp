// A stub under the name of each of the driver's functions but those by which nothing can be told
// (boost/stubs.cpp) and those that boost/exported.cpp has.
//
// driver_functions.inc has what cuda.h, cudaGL.h, cudaEGL.h, cudaVDPAU.h and cudaProfiler.h of CUDA
// 13.0 declare, by their symbols: with versions, and with what says that each thread has a default
// stream.

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "boost/stub_code.hpp"
#include "boost/stubs.hpp"
#include "intercept/real_dlsym.hpp"

extern "C" {

extern __attribute__((visibility("hidden"))) void* lanescope_named_functions[];
__attribute__((visibility("hidden"))) void* lanescope_driver_dlsym(void* handle, const char* name);

const bool lanescope_has_named_stubs = true;

const char* lanescope_stub_symbol(void** function) {
#define LANESCOPE_NAMED(name) #name,
  static constexpr const char* kSymbols[] = {
#include "batch/driver_functions.inc"
  };
#undef LANESCOPE_NAMED
  return kSymbols[function - lanescope_named_functions];
}

}  // extern "C"

#define LANESCOPE_NAMED(name) LANESCOPE_POINTER("lanescope_stub_settles")
asm("  .data\n"
    "  .balign 8\n"
    "  .globl lanescope_named_functions\n"
    "  .hidden lanescope_named_functions\n"
    "lanescope_named_functions:\n"
#include "batch/driver_functions.inc"
    "  .text\n");
#undef LANESCOPE_NAMED

#define LANESCOPE_NAMED(name)                                                                     \
  "  .globl " #name                                                                               \
  "\n"                                                                                            \
  "  .type " #name ", %function\n" #name ":\n" LANESCOPE_STUB(                                    \
      "lanescope_named_functions + 8 * lanescope_named_number") "  .size " #name ", .-" #name     \
                                                                "\n"                              \
                                                                "  .set lanescope_named_number, " \
                                                                "lanescope_named_number + 1\n"
asm("  .text\n"
    "  .balign 32\n"
    "  .set lanescope_named_number, 0\n"
#include "batch/driver_functions.inc"
);
#undef LANESCOPE_NAMED

// ---- What finds the driver's functions, for programs that are linked with it

namespace {

constexpr int kNotInitialized = 3;  // CUDA_ERROR_NOT_INITIALIZED

/// @return what the driver's function of a symbol is for who looks it up.
template <class Function>
Function looked_up(const char* symbol) noexcept {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);  // held: it stays loaded
  void* found = driver == nullptr ? nullptr : lanescope_driver_dlsym(driver, symbol);
  return reinterpret_cast<Function>(found);
}

}  // namespace

#define LANESCOPE_FINDS(symbol, parameters, arguments)                               \
  extern "C" __attribute__((visibility("default"))) int symbol parameters {          \
    static std::atomic<int(*) parameters> found{nullptr};                            \
    if (found.load() == nullptr) found.store(looked_up<int(*) parameters>(#symbol)); \
    const auto call = found.load();                                                  \
    return call == nullptr ? kNotInitialized : call arguments;                       \
  }
LANESCOPE_FINDS(cuGetProcAddress, (const char* a, void** b, int c, std::uint64_t d), (a, b, c, d))
LANESCOPE_FINDS(cuGetProcAddress_v2, (const char* a, void** b, int c, std::uint64_t d, void* e),
                (a, b, c, d, e))
// Of this one what it finds has no stub: lanescope_driver_dlsym has nothing gathered any more.
LANESCOPE_FINDS(cuGetProcAddress_v2_ptsz,
                (const char* a, void** b, int c, std::uint64_t d, void* e), (a, b, c, d, e))
