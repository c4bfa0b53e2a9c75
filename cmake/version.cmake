# LANESCOPE_VERSION, from the one place that has it.

cmake_path(SET version_header NORMALIZE
  "${CMAKE_CURRENT_LIST_DIR}/../native/include/lanescope/version.hpp")
file(STRINGS "${version_header}" version_lines REGEX "_VERSION_[A-Z]+ [0-9]+")
string(REGEX REPLACE "[^0-9;]" "" version_parts "${version_lines}")
list(JOIN version_parts "." LANESCOPE_VERSION)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${version_header}")
set(generated_folder "${CMAKE_CURRENT_BINARY_DIR}/generated")
