// Lets a program's calls of the driver go by what stands before it, or past that, as the program
// says while it runs: see in_process.py, which has the command that builds it. x86-64 only.

#include <cuda.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "intercept/hooks.hpp"
#include "intercept/real_dlsym.hpp"

namespace {

constexpr std::size_t kMost = 64;

struct Targets {
  void* in_place;  // what stands before the driver
  void* driver;
};

}  // namespace

extern "C" {
__attribute__((visibility("hidden"))) Targets lanescope_turn_targets[kMost];
__attribute__((visibility("hidden"))) unsigned long lanescope_turn = 0;
extern const char lanescope_turn_stubs[], lanescope_turn_stubs_end[];

/// 0: calls go by what stands before the driver; 1: past it.
__attribute__((visibility("default"))) void calls_in_turn(int past) {
  __atomic_store_n(&lanescope_turn, past != 0 ? 1UL : 0UL, __ATOMIC_RELAXED);
}
}

// One for each function: a jump to the first or the second of its targets.
asm(R"(
  .text
  .hidden lanescope_turn_stubs
  .hidden lanescope_turn_stubs_end
  .globl lanescope_turn_stubs
  .globl lanescope_turn_stubs_end
  .balign 32
lanescope_turn_stubs:
  .set place, 0
  .rept 64
  .balign 32
  endbr64
  movq lanescope_turn(%rip), %rax
  leaq lanescope_turn_targets(%rip), %r11
  jmp *place(%r11,%rax,8)
  .set place, place + 16
  .endr
  .balign 32
lanescope_turn_stubs_end:
)");

namespace lanescope::intercept {

namespace {

void* stub_of(void* in_place, void* driver) {
  if (driver == nullptr) return in_place;
  static std::mutex mutex;
  static std::size_t count = 0;
  const std::lock_guard lock(mutex);
  const std::size_t bytes =
      static_cast<std::size_t>(lanescope_turn_stubs_end - lanescope_turn_stubs);
  for (std::size_t i = 0; i <= count; ++i) {
    if (i == kMost) std::abort();  // more functions are in place of the driver's than are known
    if (i == count)
      lanescope_turn_targets[count++] = {in_place, driver};
    else if (lanescope_turn_targets[i].in_place != in_place)
      continue;
    return const_cast<char*>(lanescope_turn_stubs + i * (bytes / kMost));
  }
  return in_place;
}

}  // namespace

bool is_wanted() noexcept {
  return true;
}

void cuda_has_begun() noexcept {}

void* wrapped_symbol(std::string_view symbol, void* function) noexcept {
  void* driver = driver_symbol(std::string(symbol).c_str());
  return driver == function ? function : stub_of(function, driver);
}

void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const Find find = reinterpret_cast<Find>(driver_symbol("cuGetProcAddress_v2"));
  void* driver = nullptr;
  const cuuint64_t flags =
      per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  if (find == nullptr ||
      find(std::string(name).c_str(), &driver, cuda_version, flags, nullptr) != CUDA_SUCCESS)
    return function;
  return driver == function ? function : stub_of(function, driver);
}

}  // namespace lanescope::intercept
