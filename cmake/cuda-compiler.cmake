# The CUDA compiler: the caller's choice ($CUDACXX), else the one from PyPI that the build
# requirements pin, else the system's.

if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  if(Python_EXECUTABLE)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c "import nvidia.cu13 as p; print(list(p.__path__)[0])"
      OUTPUT_VARIABLE cuda_wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(cuda_wheels AND EXISTS "${cuda_wheels}/bin/nvcc")
    set(CMAKE_CUDA_COMPILER "${cuda_wheels}/bin/nvcc")
    # The wheels keep their libraries in lib, where nvcc would look in lib64.
    string(APPEND CMAKE_CUDA_FLAGS " -L${cuda_wheels}/lib")
    link_directories("${cuda_wheels}/lib")
  elseif(EXISTS /usr/local/cuda/bin/nvcc)
    list(APPEND CMAKE_PROGRAM_PATH /usr/local/cuda/bin)
  endif()
endif()
