# Compiles for Linux on aarch64 with Debian's g++-aarch64-linux-gnu; where QEMU's user emulation is
# found, CMake and CTest run what comes out by it:
#
#   cmake --toolchain $PWD/cmake/aarch64-linux-gnu.cmake -DLANESCOPE_PYTHON=OFF -DLANESCOPE_CUDA=OFF ...

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Where Debian keeps the C library of the cross compiler, which is also what programs load.
set(aarch64_root /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH "${aarch64_root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)  # What was installed for aarch64 lies anywhere.

find_program(LANESCOPE_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
if(LANESCOPE_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${LANESCOPE_QEMU_AARCH64}" -L "${aarch64_root}")
endif()
