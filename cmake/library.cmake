# The library for C++ (docs/cpp.md): compressed arrays, and nothing of Python, hwloc or CUPTI. Without
# LANESCOPE_CUDA it has the codecs for the host, and nothing of CUDA.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(lanescope_compression ${host_library_sources})
target_link_libraries(lanescope_compression PRIVATE
  $<BUILD_INTERFACE:lanescope_codecs> Threads::Threads)
if(LANESCOPE_CUDA)
  target_sources(lanescope_compression PRIVATE ${gpu_library_sources} ${host_copy_sources})
  # The CUDA runtime is linked in, also where users have no CUDA compiler.
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
  list(APPEND LANESCOPE_CUDA_HINTS ${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT} "${cuda_root}")
  list(REMOVE_DUPLICATES LANESCOPE_CUDA_HINTS)
  include(cmake/lanescope-cudart.cmake)
  # As a target of the build's own would be exported, too, it is named in two ways.
  target_link_libraries(lanescope_compression
    PUBLIC $<BUILD_INTERFACE:lanescope::cudart> $<INSTALL_INTERFACE:lanescope::cudart>
    PRIVATE $<BUILD_INTERFACE:lanescope_compress> ${CMAKE_DL_LIBS})
else()
  target_compile_definitions(lanescope_compression PUBLIC LANESCOPE_HOST_ONLY)
endif()
set(installed COMPONENT library)
if(SKBUILD)  # Wheels have it in a folder of the package, whose path `lanescope --cmake-prefix` prints.
  set(installed COMPONENT python)
  set(CMAKE_INSTALL_LIBDIR lanescope/cpp/lib)
  set(CMAKE_INSTALL_INCLUDEDIR lanescope/cpp/include)
  # The CUDA runtime of PyPI, where that is installed beside.
  set(LANESCOPE_CUDA_HINTS "\${CMAKE_CURRENT_LIST_DIR}/../../../../../nvidia/cu13")
elseif(LANESCOPE_PYTHON)  # It is built and installed when it is asked for: make library.
  set_target_properties(lanescope_compression PROPERTIES EXCLUDE_FROM_ALL ON)
  list(APPEND installed EXCLUDE_FROM_ALL)
endif()
add_library(lanescope::compression ALIAS lanescope_compression)
target_include_directories(lanescope_compression
  PRIVATE native/src PUBLIC
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/native/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(lanescope_compression PUBLIC cxx_std_20)
target_compile_options(lanescope_compression PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>)
set_target_properties(lanescope_compression PROPERTIES
  EXPORT_NAME compression
  LINKER_LANGUAGE CXX
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  CUDA_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  VERSION ${LANESCOPE_VERSION}
  SOVERSION ${LANESCOPE_VERSION})
if(BUILD_SHARED_LIBS)
  target_link_options(lanescope_compression PRIVATE -Wl,--exclude-libs,ALL)
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lanescope")
install(TARGETS lanescope_compression EXPORT lanescope ${installed})
install(FILES
  native/include/lanescope/codecs.hpp native/include/lanescope/compression.hpp
  native/include/lanescope/version.hpp
  $<$<BOOL:${LANESCOPE_CUDA}>:${CMAKE_CURRENT_SOURCE_DIR}/native/include/lanescope/host_copies.hpp>
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lanescope" ${installed})
install(EXPORT lanescope NAMESPACE lanescope:: FILE lanescope-targets.cmake
  DESTINATION "${package_folder}" ${installed})
configure_package_config_file(cmake/lanescope-config.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/lanescope-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/lanescope-config-version.cmake"
  VERSION "${LANESCOPE_VERSION}" COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/lanescope-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/lanescope-config-version.cmake"
  $<$<BOOL:${LANESCOPE_CUDA}>:${CMAKE_CURRENT_SOURCE_DIR}/cmake/lanescope-cudart.cmake>
  DESTINATION "${package_folder}" ${installed})
