#include "cuda/devices.hpp"

#include <cstdio>

#include "cuda/cuda_handles.hpp"

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

/// Twice the memory clock, as all GPU memory moves data on both edges, times the bus.
double memory_gbs(int device) {
  int clock_khz = 0, bus_bits = 0;
  forgive(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device));
  forgive(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device));
  return 2e-6 * clock_khz * bus_bits / 8;
}

std::vector<int> peers_of(int device, int count) {
  std::vector<int> peers;
  for (int peer = 0; peer < count; ++peer) {
    int possible = 0;
    if (peer != device) forgive(cudaDeviceCanAccessPeer(&possible, device, peer));
    if (possible != 0) peers.push_back(peer);
  }
  return peers;
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
                       properties.multiProcessorCount, properties.asyncEngineCount, memory_gbs(i),
                       peers_of(i, count)});
  }
  return devices;
}

}  // namespace lanescope
