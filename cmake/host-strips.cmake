# The host's codecs are compiled for newer CPUs, too, and chosen when they run: host_strips.cpp asks
# for the same instructions. A compiler that does not know them makes none of it.

include(CheckCXXCompilerFlag)

set(avx2_flags -mavx2 -mbmi -mbmi2 -mlzcnt)
set(avx512_flags
    ${avx2_flags} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx512vbmi -mavx512vbmi2
    -mgfni -mprefer-vector-width=512)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  foreach(kind avx2 avx512)
    string(JOIN " " flags ${${kind}_flags})
    check_cxx_compiler_flag("${flags}" compiles_for_${kind})
    if(compiles_for_${kind})
      set_source_files_properties(host_strips_${kind}.cpp PROPERTIES
        COMPILE_OPTIONS "${${kind}_flags}")
    endif()
  endforeach()
endif()
