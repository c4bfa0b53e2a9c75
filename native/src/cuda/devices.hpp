#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lanescope {

/// What CUDA says of one device.
struct Device {
  int index;
  std::string name;
  std::string pci_address;  ///< Such as 0000:17:00.0.
  std::string uuid;         ///< Such as GPU-37eed5e3-....
  std::size_t memory_bytes;
  int compute_major;
  int compute_minor;
  int multiprocessors;
  int async_engines;
  double memory_gbs;       ///< Peak of its memory, both ways together; 0 when unknown.
  std::vector<int> peers;  ///< Devices whose memory it can reach directly.
};

/// All devices that this process may use. Throws `Error` when CUDA is not to be had.
std::vector<Device> cuda_devices();

}  // namespace lanescope
