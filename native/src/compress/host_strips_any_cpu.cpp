#include "compress/host_strips_here.hpp"

namespace lanescope::compress {

const HostStrips* any_cpu_host_strips() {
  static constexpr HostStrips kStrips = strips_here("any CPU");
  return &kStrips;
}

}  // namespace lanescope::compress
