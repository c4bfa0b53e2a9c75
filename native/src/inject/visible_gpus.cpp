#include "visible_gpus.hpp"

#include <cuda.h>
#include <dlfcn.h>

namespace lanescope::inject {

std::vector<std::string> visible_gpus() {
  // Never the one that loads it: the program may have no driver at all.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return {};
  const auto count_of =
      reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
  const auto address_of =
      reinterpret_cast<decltype(&cuDeviceGetPCIBusId)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  std::vector<std::string> addresses;
  int count = 0;
  if (count_of != nullptr && address_of != nullptr && count_of(&count) == CUDA_SUCCESS) {
    for (int gpu = 0; gpu < count; ++gpu) {
      char address[32] = "";
      if (address_of(address, sizeof address, gpu) != CUDA_SUCCESS) address[0] = '\0';
      addresses.emplace_back(address);
    }
  }
  dlclose(driver);
  return addresses;
}

}  // namespace lanescope::inject
