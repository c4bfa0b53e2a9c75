// The calls under their own names, for programs that are linked with the driver's library.

#include "intercept/exported.hpp"

LANESCOPE_EXPORTED_CUDA
