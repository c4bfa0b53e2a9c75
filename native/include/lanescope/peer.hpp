#pragma once

namespace lanescope {

/// Lets `device` reach the memory of `peer` directly; false when it cannot. Throws `Error`.
bool enable_peer(int device, int peer);

}  // namespace lanescope
