# The host's codecs are compiled for newer CPUs, too, and chosen when they run: host_strips.cpp asks
# for the same instructions. This sets avx2_flags and avx512_flags, which are empty where the
# compiler does not know such CPUs: host_strips_avx2.cpp and the other one are empty there, too.

include(CheckCXXCompilerFlag)

set(avx2_flags -mavx2 -mbmi -mbmi2 -mlzcnt)
set(avx512_flags
    ${avx2_flags} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vbmi -mavx512vbmi2
    -mgfni -mprefer-vector-width=512)

foreach(kind avx2 avx512)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    string(JOIN " " flags ${${kind}_flags})
    check_cxx_compiler_flag("${flags}" compiles_for_${kind})
  endif()
  if(NOT compiles_for_${kind})
    set(${kind}_flags "")
  endif()
endforeach()
