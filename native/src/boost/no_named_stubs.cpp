// In place of native/src/batch/named_stubs.cpp in liblanescope_boost.so, which gathers nothing.

#include "boost/stubs.hpp"

const bool lanescope_has_named_stubs = false;

const char* lanescope_stub_symbol(void**) {
  return "";
}
