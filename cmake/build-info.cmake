# Has build_info.cpp know version, commit, CUDA and GPU code. The commit is looked up in each build,
# and only another one compiles the file again.

set(code "")
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^[0-9]+" number "${architecture}")
  string(REGEX REPLACE "([0-9])$" ".\\1" capability "${number}")
  if(NOT architecture MATCHES "-virtual$")
    list(APPEND code "sm_${number}")
  endif()
  if(NOT architecture MATCHES "-real$")
    list(APPEND ptx "PTX ${capability}")
  endif()
endforeach()
list(APPEND code ${ptx})
list(JOIN code ", " code)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" cuda_version "${CMAKE_CUDA_COMPILER_VERSION}")

add_custom_target(lanescope_build_values
  BYPRODUCTS "${generated_folder}/lanescope_build_values.hpp"
  COMMAND "${CMAKE_COMMAND}"
    "-DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}" "-DOUT=${generated_folder}"
    "-DVERSION=${LANESCOPE_VERSION}" "-DCUDA=${cuda_version}" "-DCODE=${code}"
    -P "${CMAKE_CURRENT_SOURCE_DIR}/cmake/write-build-values.cmake"
  VERBATIM COMMENT "")

# use_build_info(TARGET): compiles build_info.cpp into it.
function(use_build_info target)
  target_sources(${target} PRIVATE ${build_info_source})
  target_include_directories(${target} PRIVATE "${generated_folder}")
  add_dependencies(${target} lanescope_build_values)
endfunction()
