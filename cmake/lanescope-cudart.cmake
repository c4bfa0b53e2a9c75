# lanescope::cudart: the CUDA runtime, static, with its headers. CMake's FindCUDAToolkit refuses
# toolkits that come as packages of Python, as they lack some of the rest.

if(NOT TARGET lanescope::cudart)
  # CUDA's name for servers on aarch64: those of GH200 and GB200, too.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(lanescope_cuda_target sbsa-linux)
  else()
    set(lanescope_cuda_target x86_64-linux)
  endif()
  find_path(LANESCOPE_CUDA_INCLUDE_DIR cuda_runtime_api.h
    HINTS ${LANESCOPE_CUDA_HINTS} ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda PATH_SUFFIXES include targets/${lanescope_cuda_target}/include)
  find_library(LANESCOPE_CUDART cudart_static
    HINTS ${LANESCOPE_CUDA_HINTS} ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib targets/${lanescope_cuda_target}/lib)
  if(NOT LANESCOPE_CUDA_INCLUDE_DIR OR NOT LANESCOPE_CUDART)
    message(FATAL_ERROR "lanescope: the CUDA runtime (cuda_runtime_api.h, libcudart_static.a) was "
                        "not found; name CUDA's folder with -DLANESCOPE_CUDA_HINTS=FOLDER")
  endif()
  add_library(lanescope::cudart INTERFACE IMPORTED GLOBAL)
  target_include_directories(lanescope::cudart SYSTEM INTERFACE "${LANESCOPE_CUDA_INCLUDE_DIR}")
  target_link_libraries(lanescope::cudart INTERFACE
    "${LANESCOPE_CUDART}" Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()
