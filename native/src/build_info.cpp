#include "build_info.hpp"

#include "lanescope_build_values.hpp"  // CMake writes it: cmake/build-info.cmake

namespace lanescope {

BuildInfo build_info() {
  return {LANESCOPE_BUILD_VERSION, LANESCOPE_BUILD_COMMIT, LANESCOPE_BUILD_CUDA,
          LANESCOPE_BUILD_CODE};
}

}  // namespace lanescope
