// Loads what the CUDA driver would load, and copies. Python would take seconds of each start.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
int main(int count, char**) {
  void* cupti = dlopen(getenv("LANESCOPE_CUPTI"), RTLD_NOW);
  void* inject = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (cupti == nullptr || inject == nullptr) return 2;
  if (reinterpret_cast<int (*)()>(dlsym(inject, "InitializeInjection"))() != 1) return 3;
  using Copies = void (*)(int, uint64_t, int, int, int);
  reinterpret_cast<Copies>(dlsym(cupti, "mock_copies"))(10, 4096, 1, 1, 7);
  if (count > 1) sleep(1);  // told to stay for a while
  return 0;
}
