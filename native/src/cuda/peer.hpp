#pragma once

#include <utility>
#include <vector>

namespace lanescope {

/// Lets `device` reach the memory of `peer` directly; false when it cannot. Throws `Error`.
bool enable_peer(int device, int peer);

/// Keeps pairs of devices from reaching each other's memory, and lets those that could before
/// do so again when it goes out of scope, however the scope is left.
class PeerAccessOff {
 public:
  PeerAccessOff() = default;
  ~PeerAccessOff();
  PeerAccessOff(const PeerAccessOff&) = delete;
  PeerAccessOff& operator=(const PeerAccessOff&) = delete;

  /// Adds both ways between two devices. Throws `Error`.
  void take(int device, int other);

 private:
  void take_one_way(int device, int peer);

  std::vector<std::pair<int, int>> taken_;  // device and peer
};

}  // namespace lanescope
