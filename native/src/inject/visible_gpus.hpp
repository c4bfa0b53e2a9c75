#pragma once

#include <string>
#include <vector>

namespace lanescope::inject {

/// The PCI address of each GPU that this process sees, such as "0000:17:00.0", by the process's
/// own number of it: that follows from CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
/// @return none before the driver is initialised, and where it does not tell.
std::vector<std::string> visible_gpus();

}  // namespace lanescope::inject
