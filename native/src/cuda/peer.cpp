#include "lanescope/peer.hpp"

#include "lanescope/cuda_handles.hpp"

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

}  // namespace lanescope
