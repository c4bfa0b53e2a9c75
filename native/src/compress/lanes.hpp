#pragma once

// Before functions of codecs, which run on the host and on GPUs.
#ifdef __CUDACC__
#define LANESCOPE_LANES __host__ __device__
#else
#define LANESCOPE_LANES
#endif

// Where code is compiled for a GPU, or for the test that stands in for one.
#if defined(__CUDA_ARCH__) || defined(LANESCOPE_EMULATED)
#define LANESCOPE_ON_DEVICE
#endif

// Before loops over arrays of lanes' values, which a GPU keeps in registers only so.
#ifdef __CUDA_ARCH__
#define LANESCOPE_UNROLL _Pragma("unroll")
#define LANESCOPE_NOT_UNROLLED _Pragma("unroll 1")
#else
#define LANESCOPE_UNROLL
#define LANESCOPE_NOT_UNROLLED
#endif

// Before short loops that GCC has to leave as they are in order to vectorise them.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define LANESCOPE_ROLLED _Pragma("GCC unroll 1")
#define LANESCOPE_UNROLLED _Pragma("GCC unroll 32")
#else
#define LANESCOPE_ROLLED
#define LANESCOPE_UNROLLED
#endif

// The host's code is compiled several times, for CPUs of several kinds, in a namespace for each:
// linkers must not take a function of one for that of another.
#ifndef LANESCOPE_CPU
#define LANESCOPE_CPU any_cpu
#endif
