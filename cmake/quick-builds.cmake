# Most of what small files take to compile is reading the standard library and CUDA's headers. So the
# files of a folder are compiled as one, its CUDA files as another one: names in their unnamed
# namespaces must differ. Files with options of their own, or marked SKIP_UNITY_BUILD_INCLUSION, are
# compiled alone.

# compile_by_folder(TARGET SOURCES...)
function(compile_by_folder target)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${name}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
