#pragma once

/// Marks functions that run on the host and on GPUs; nothing where no compiler for GPUs reads it.
#ifdef __CUDACC__
#define LANESCOPE_HOST_DEVICE __host__ __device__
#else
#define LANESCOPE_HOST_DEVICE
#endif
