#define LANESCOPE_CPU avx512

#include "compress/host_strips.hpp"

#if defined(__AVX512VBMI2__) && defined(__AVX512BW__) && defined(__GFNI__)
#include "compress/host_strips_here.hpp"

namespace lanescope::compress {

const HostStrips* avx512_host_strips() {
  static constexpr HostStrips kStrips = strips_here("avx512");
  return &kStrips;
}

}  // namespace lanescope::compress
#else

const lanescope::compress::HostStrips* lanescope::compress::avx512_host_strips() {
  return nullptr;
}
#endif
