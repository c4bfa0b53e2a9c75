#include "lanescope/devices.hpp"

#include <cstdio>

#include "lanescope/cuda_handles.hpp"

namespace lanescope {

namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

}  // namespace

std::vector<Device> cuda_devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    char address[16];
    std::snprintf(address, sizeof address, "%04x:%02x:%02x.0",
                  static_cast<unsigned>(properties.pciDomainID) & 0xffffu,
                  static_cast<unsigned>(properties.pciBusID) & 0xffu,
                  static_cast<unsigned>(properties.pciDeviceID) & 0xffu);
    devices.push_back({i, properties.name, address, uuid_text(properties.uuid),
                       properties.totalGlobalMem, properties.major, properties.minor,
                       properties.multiProcessorCount, properties.asyncEngineCount});
  }
  return devices;
}

}  // namespace lanescope
