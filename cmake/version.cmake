# The version has one place, pyproject.toml; C++ has it from lanescope/version.hpp, which is written
# below `generated` in the build folder.

cmake_path(SET pyproject NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../pyproject.toml")
file(STRINGS "${pyproject}" version_line REGEX "^version = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LANESCOPE_VERSION "${version_line}")
string(REPLACE "." ";" version_parts "${LANESCOPE_VERSION}")
list(GET version_parts 0 LANESCOPE_VERSION_MAJOR)
list(GET version_parts 1 LANESCOPE_VERSION_MINOR)
list(GET version_parts 2 LANESCOPE_VERSION_PATCH)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pyproject}")
set(generated_folder "${CMAKE_CURRENT_BINARY_DIR}/generated")
configure_file("${CMAKE_CURRENT_LIST_DIR}/version.hpp.in"
  "${generated_folder}/lanescope/version.hpp" @ONLY)
