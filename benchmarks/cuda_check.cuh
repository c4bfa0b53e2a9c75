// Ends a benchmark with the failed call and CUDA's reason.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                              \
  do {                                                                           \
    const cudaError_t check_result = (call);                                     \
    if (check_result != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(check_result)); \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)
