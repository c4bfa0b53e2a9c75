# What is made of which files of native/src: each file is named once, by itself or by its folder.

cmake_path(SET src NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../native/src")

# paths_of(RESULT NAMES...): the paths of files of native/src.
function(paths_of result)
  list(TRANSFORM ARGN PREPEND "${src}/")
  set(${result} "${ARGN}" PARENT_SCOPE)
endfunction()

# folder_of(RESULT PATTERNS... LESS OTHERS...): those that patterns find, less some of them.
function(folder_of result)
  cmake_parse_arguments(PARSE_ARGV 1 its "" "" "LESS")
  list(TRANSFORM its_UNPARSED_ARGUMENTS PREPEND "${src}/" OUTPUT_VARIABLE patterns)
  file(GLOB found CONFIGURE_DEPENDS ${patterns})
  list(REMOVE_ITEM found ${its_LESS})
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# The codecs on the host, which need nothing of CUDA. Strips are compiled for CPUs of each kind.
set(cpu_kinds any_cpu avx2 avx512)
list(TRANSFORM cpu_kinds REPLACE "(.+)" "compress/host_strips_\\1.cpp" OUTPUT_VARIABLE of_kinds)
paths_of(host_strip_sources compress/host_strips.cpp ${of_kinds})
paths_of(host_codec_sources error.cpp host/interruption.cpp host/parallel.cpp
  compress/candidates.cpp compress/choosing.cpp compress/format.cpp compress/host_codec.cpp
  compress/update.cpp)

# What needs the CUDA runtime: channels, and the codecs on GPUs with their kernels.
paths_of(channel_sources cuda/peer.cpp cuda/shared_memory.cpp cuda/stream_values.cpp
  compress/device_channel.cpp compress/encode_lanes.cpp
  compress/host_channel.cpp compress/in_flight.cpp
  compress/page_copier.cpp compress/parcel.cpp compress/parcel_stream.cpp
  compress/peer_receiver.cpp compress/peer_sender.cpp compress/peer_slots.cpp
  compress/pinned_arena.cpp compress/range_arena.cpp compress/report.cpp compress/room.cpp
  compress/slab_ring.cpp compress/slabs.cpp compress/table_pool.cpp compress/ticket.cpp
  compress/update_lanes.cpp)
paths_of(runtime_sources cuda/missing_code.cpp watch/library.cpp)
folder_of(gpu_codec_sources compress/*.cpp compress/*.cu
  LESS ${host_strip_sources} ${host_codec_sources} ${channel_sources})

# The library for C++, of which Python has the rule, too.
paths_of(rule_sources library/always.cpp library/rule.cpp library/rule_costs.cpp
  library/rule_evidence.cpp)
paths_of(host_library_sources library/codec.cpp library/seam.cpp)
# Its copies of pageable memory, with what carries them, which needs the driver alone.
paths_of(boost_batches boost/ageing.cpp boost/batch.cpp boost/no_named_stubs.cpp boost/staging.cpp
  boost/stubs.cpp)
paths_of(boost_seam boost/exported.cpp boost/wrappers.cpp)
list(APPEND boost_seam ${boost_batches})
folder_of(host_copy_sources boost/*.cpp LESS ${boost_seam})
paths_of(host_copies library/host_copies.cpp)
list(APPEND host_copy_sources ${host_copies})
folder_of(gpu_library_sources library/*.cpp
  LESS ${rule_sources} ${host_library_sources} ${host_copies})

# The measuring core. Each build has values of its own to compile `build_info_source` with.
paths_of(build_info_source build_info.cpp)
folder_of(core_sources
  *.cpp host/*.cpp cuda/*.cpp cuda/*.cu workload/*.cpp workload/*.cu watch/*.cpp
  LESS ${host_codec_sources} ${channel_sources} ${runtime_sources} ${build_info_source})
