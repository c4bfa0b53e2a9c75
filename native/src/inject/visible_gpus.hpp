#pragma once

#include <cuda.h>

#include <string>
#include <vector>

namespace lanescope::inject {

/// The GPUs that this process sees.
class VisibleGpus {
 public:
  /// Looks for the driver, which is never the one that this loads: the program may have none. Takes
  /// the loader's lock, which a child of a raw clone() that begins meanwhile never gets: so not
  /// while the program runs.
  void find_driver() noexcept;

  /// The PCI address of each GPU, such as "0000:17:00.0", by the process's own number of it: that
  /// follows from CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
  /// @return none before the driver is initialised, and where it does not tell.
  std::vector<std::string> addresses() const;

 private:
  decltype(&cuDeviceGetCount) count_of_ = nullptr;
  decltype(&cuDeviceGetPCIBusId) address_of_ = nullptr;
};

}  // namespace lanescope::inject
