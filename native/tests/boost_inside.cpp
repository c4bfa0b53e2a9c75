// In place of native/src/intercept/dlsym.cpp in programs for sanitizers: the driver for tests is
// part of the program, and so is what stands before it.
#include <cuda.h>
#include <dlfcn.h>

#include "boost/stubs.hpp"
#include "intercept/hooks.hpp"
#include "intercept/real_dlsym.hpp"

// All calls of such a program go through what it looks up.
const bool lanescope_has_named_stubs = true;

const char* lanescope_stub_symbol(void**) {
  return "";
}

namespace lanescope::intercept {

namespace {

CUresult begin_cuda(unsigned flags) {
  const CUresult result = cuInit(flags);
  cuda_has_begun();
  return result;
}

}  // namespace

void* real_dlsym(void* handle, const char* name) noexcept {
  return dlsym(handle, name);
}

void* driver_symbol(const char* name) noexcept {
  return dlsym(RTLD_DEFAULT, name);
}

void* wrapped(std::string_view symbol, void* function) noexcept {
  return symbol == "cuInit" ? reinterpret_cast<void*>(&begin_cuda)
                            : wrapped_symbol(symbol, function);
}

}  // namespace lanescope::intercept
