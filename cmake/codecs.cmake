# What follows from the registry of codecs, native/include/lanescope/codecs.hpp: a header that includes
# those of all codecs that code by strips, in codec_headers_folder, and codec_kernels, the sources of
# their kernels, which take longest to compile: one for each codec and direction.

set(compress_folder "${CMAKE_CURRENT_LIST_DIR}/../native/src/compress")
set(registry "${CMAKE_CURRENT_LIST_DIR}/../native/include/lanescope/codecs.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${registry}")
file(READ "${registry}" codec_lines)
string(REGEX MATCHALL "CODEC\\([a-z0-9_]+, [0-9]+, (none|strips)" codec_lines "${codec_lines}")

set(codec_headers_folder "${CMAKE_CURRENT_BINARY_DIR}/generated")
set(codec_headers "")
set(codec_kernels "")
foreach(line IN LISTS codec_lines)
  string(REGEX REPLACE "^CODEC\\(([a-z0-9_]+), .*" "\\1" codec "${line}")
  if(line MATCHES ", strips")
    string(APPEND codec_headers "#include \"compress/codecs/${codec}.hpp\"\n")
  endif()
  foreach(job IN ITEMS Encoding Decoding)
    string(REGEX REPLACE "(.*)ing" "\\1e_kernel" kernel "${job}")
    string(TOLOWER "${kernel}" kernel)
    set(source "${codec_headers_folder}/${codec}_${kernel}.cu")
    configure_file("${compress_folder}/codec_kernel.cu.in" "${source}" @ONLY)
    list(APPEND codec_kernels "${source}")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT "${codec_headers_folder}/lanescope_codec_headers.hpp"
  CONTENT "#pragma once\n\n${codec_headers}")
