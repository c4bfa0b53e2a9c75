// What recording costs a call that copies: calls of a driver that does nothing, as CUDA's runtime
// looks them up, nanoseconds each. See call_cost.sh.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

using Find = int (*)(const char*, void**, int, std::uint64_t, void*);
using Copy = int (*)(std::uint64_t, const void*, std::size_t, void*);

int main(int, char** arguments) {
  constexpr int kCalls = 1'000'000, kPages = 64;
  constexpr std::size_t kPage = 4096;
  constexpr std::uint64_t kDevice = 1ULL << 46;
  void* driver = dlopen(arguments[1], RTLD_NOW);
  const auto find = reinterpret_cast<Find>(dlsym(driver, "cuGetProcAddress_v2"));
  Copy copy = nullptr;
  find("cuMemcpyHtoDAsync", reinterpret_cast<void**>(&copy), 12000, 0, nullptr);
  std::vector<char> host(kPages * kPage);
  const auto run = [&] {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i)
      copy(kDevice + (i % kPages) * kPage, host.data() + (i % kPages) * kPage, 1024, nullptr);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    return took.count() / kCalls;
  };
  run();
  for (int turn = 0; turn < 7; ++turn) std::printf("%.1f ns\n", run());
}
