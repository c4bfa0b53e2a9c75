# Libraries that are loaded into a watched program. Each brings all that it needs but the C library,
# shows only what its exports.map names, and stays loaded.

# add_injected_library(TARGET SOURCES...), in the folder that holds its exports.map
function(add_injected_library target)
  set(sources ${ARGN})
  set(headers "${CUPTI_INCLUDE_DIR}" ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  set(own_headers "${PROJECT_SOURCE_DIR}/native/src")
  set(exports "${CMAKE_CURRENT_SOURCE_DIR}/exports.map")
  set(link_options -Wl,--gc-sections -Wl,-z,nodelete "-Wl,--version-script=${exports}")

  # The program may run in a container whose C library is older than the one here. Releases name a
  # compiler that links for an old one: LANESCOPE_INJECTOR_COMPILER="python -m ziglang c++ ..."
  if(DEFINED ENV{LANESCOPE_INJECTOR_COMPILER})
    separate_arguments(compiler UNIX_COMMAND "$ENV{LANESCOPE_INJECTOR_COMPILER}")
    set(made "${CMAKE_CURRENT_BINARY_DIR}/lib${target}.so")
    list(TRANSFORM headers PREPEND -isystem)
    file(GLOB inputs CONFIGURE_DEPENDS *.hpp)
    add_custom_command(OUTPUT "${made}"
      COMMAND ${compiler} -std=c++${CMAKE_CXX_STANDARD} -O2 -DNDEBUG -fPIC -shared -s
              -fvisibility=hidden -fvisibility-inlines-hidden ${headers}
              -I${own_headers} ${link_options} ${sources} -o "${made}"
              -lpthread -ldl
      DEPENDS ${sources} ${inputs} "${exports}"
      COMMENT "Building lib${target}.so for old C libraries" VERBATIM)
    add_custom_target(${target} ALL DEPENDS "${made}")
    install(PROGRAMS "${made}" DESTINATION lanescope COMPONENT python)
    return()
  endif()

  add_library(${target} SHARED ${sources})
  target_include_directories(${target} SYSTEM PRIVATE ${headers})
  target_include_directories(${target} PRIVATE ${own_headers})
  target_link_libraries(${target} PRIVATE lanescope_warnings Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc ${link_options})
  compile_by_folder(${target} ${sources})
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  install(TARGETS ${target} LIBRARY DESTINATION lanescope COMPONENT python)
endfunction()
