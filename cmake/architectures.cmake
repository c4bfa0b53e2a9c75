# CMAKE_CUDA_ARCHITECTURES, from LANESCOPE_ARCHITECTURES. A plain number is machine code and PTX:
# newer GPUs compile the PTX when they first load it. PTX of the oldest alone has no bulk copies,
# which kernels for Hopper and newer use, so that releases have two.

set(release_architectures
    75-virtual 75-real 80-real 86-real 89-real 90-virtual 90-real 100-real 120-real)
set(architectures_without_a_gpu 75-virtual 90)

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  string(REGEX REPLACE "[, ;]+" ";" architectures "${LANESCOPE_ARCHITECTURES}")
  if("${architectures}" STREQUAL "all")
    set(architectures ${release_architectures})
  elseif("${architectures}" STREQUAL "")
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE capabilities RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" architectures "${capabilities}")
      list(TRANSFORM architectures REPLACE "\\." "")
      list(REMOVE_DUPLICATES architectures)
      list(SORT architectures COMPARE NATURAL)
    endif()
    if(NOT architectures)
      set(architectures ${architectures_without_a_gpu})
    endif()
  endif()
  find_program(LANESCOPE_NVCC nvcc NO_CACHE
    HINTS "${cuda_wheels}/bin" ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda/bin)
  execute_process(COMMAND "${LANESCOPE_NVCC}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(architecture IN LISTS architectures)
    if(NOT architecture MATCHES "^[0-9]+[af]?(-real|-virtual)?$")
      message(FATAL_ERROR
        "'${architecture}' is no GPU architecture; LANESCOPE_ARCHITECTURES takes 'all' or a list "
        "such as 80,90 (90-real: machine code alone, 90-virtual: PTX alone)")
    endif()
    string(REGEX MATCH "^[0-9]+" number "${architecture}")
    if(number LESS 75)
      message(FATAL_ERROR
        "CUDA 13 has no code for GPUs of compute capability below 7.5, and '${architecture}' was "
        "asked for; a GPU newer than Volta is needed")
    endif()
    if(known AND NOT known MATCHES "compute_${number}[^0-9]")
      string(REGEX MATCHALL "[0-9]+" numbers "${known}")
      list(JOIN numbers ", " numbers)
      message(FATAL_ERROR
        "the CUDA compiler does not know the GPU architecture '${architecture}', but ${numbers}; "
        "name one of these in LANESCOPE_ARCHITECTURES, or a newer compiler in CUDACXX")
    endif()
  endforeach()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures})
endif()
message(STATUS "GPU architectures: ${CMAKE_CUDA_ARCHITECTURES}")
