# Writes lanescope_build_values.hpp, if anything in it is new.

set(commit "$ENV{LANESCOPE_COMMIT}")  # of a source distribution, which has no .git
if(EXISTS "${SOURCE}/.git")
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT "${OUT}/lanescope_build_values.hpp" @ONLY CONTENT [[
#define LANESCOPE_BUILD_VERSION "@VERSION@"
#define LANESCOPE_BUILD_COMMIT "@commit@"
#define LANESCOPE_BUILD_CUDA "@CUDA@"
#define LANESCOPE_BUILD_CODE "@CODE@"
]])
