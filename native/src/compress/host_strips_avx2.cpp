#define LANESCOPE_CPU avx2

#include "compress/host_strips.hpp"

#if defined(__AVX2__) && defined(__BMI2__) && defined(__LZCNT__)
#include "compress/host_strips_here.hpp"

namespace lanescope::compress {

const HostStrips* avx2_host_strips() {
  static constexpr HostStrips kStrips = strips_here("avx2");
  return &kStrips;
}

}  // namespace lanescope::compress
#else

const lanescope::compress::HostStrips* lanescope::compress::avx2_host_strips() {
  return nullptr;
}
#endif
