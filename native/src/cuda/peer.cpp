#include "cuda/peer.hpp"

#include "cuda/cuda_handles.hpp"

namespace lanescope {

bool enable_peer(int device, int peer) {
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
  if (possible == 0) return false;
  const ScopedDevice scope(device);
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return true;
  }
  check(status, "cudaDeviceEnablePeerAccess");
  return true;
}

PeerAccessOff::~PeerAccessOff() {
  for (const auto& [device, peer] : taken_) {
    try {
      enable_peer(device, peer);
    } catch (const Error&) {  // whoever needs it next asks for it, and is told
    }
  }
}

void PeerAccessOff::take(int device, int other) {
  take_one_way(device, other);
  take_one_way(other, device);
}

void PeerAccessOff::take_one_way(int device, int peer) {
  taken_.reserve(taken_.size() + 1);  // or what has been taken might not be noted
  const ScopedDevice scope(device);
  const cudaError_t status = cudaDeviceDisablePeerAccess(peer);
  if (status == cudaErrorPeerAccessNotEnabled) return forgive(status);
  check(status, "cudaDeviceDisablePeerAccess");
  taken_.emplace_back(device, peer);
}

}  // namespace lanescope
