# The version has one place, pyproject.toml; the commit is git's, where there is a checkout.

file(STRINGS pyproject.toml version_line REGEX "^version = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LANESCOPE_VERSION "${version_line}")
string(REPLACE "." ";" version_parts "${LANESCOPE_VERSION}")
list(GET version_parts 0 LANESCOPE_VERSION_MAJOR)
list(GET version_parts 1 LANESCOPE_VERSION_MINOR)
list(GET version_parts 2 LANESCOPE_VERSION_PATCH)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS pyproject.toml)
