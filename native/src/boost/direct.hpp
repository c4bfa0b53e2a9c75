#pragma once

#include <cstddef>
#include <cstdint>

// Functions with names and arguments of C, which Python finds in this library.
#define LANESCOPE_BOOST_EXPORTED extern "C" __attribute__((visibility("default")))

/// Copy between memory of the host and of a GPU, in the primary context of `gpu`, behind what
/// `stream` (0: the default one of all threads) was given before; what it is given later comes
/// behind the copy. Returns when the host's memory may be changed, or has the bytes.
/// @return a CUresult; CUDA_ERROR_NOT_SUPPORTED for a driver older than CUDA 12.
LANESCOPE_BOOST_EXPORTED int lanescope_boost_copy(std::uint64_t to, std::uint64_t from,
                                                  std::size_t bytes, std::uint64_t stream, int gpu,
                                                  int is_to_gpu);

/// @return what the driver says of a CUresult; null where it knows none such.
LANESCOPE_BOOST_EXPORTED const char* lanescope_boost_error(int result);
