#include "inject/visible_gpus.hpp"

#include <dlfcn.h>

namespace lanescope::inject {

void VisibleGpus::find_driver() noexcept {
  if (count_of_ != nullptr) return;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);  // held: it stays loaded
  if (driver == nullptr) return;
  address_of_ =
      reinterpret_cast<decltype(&cuDeviceGetPCIBusId)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  count_of_ = reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
}

std::vector<std::string> VisibleGpus::addresses() const {
  std::vector<std::string> addresses;
  int count = 0;
  if (count_of_ == nullptr || address_of_ == nullptr || count_of_(&count) != CUDA_SUCCESS)
    return addresses;
  for (int gpu = 0; gpu < count; ++gpu) {
    char address[32] = "";
    if (address_of_(address, sizeof address, gpu) != CUDA_SUCCESS) address[0] = '\0';
    addresses.emplace_back(address);
  }
  return addresses;
}

}  // namespace lanescope::inject
