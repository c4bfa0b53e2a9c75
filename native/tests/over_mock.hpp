// What programs have that copy over the driver of mock_driver.cpp. LOOKUP says how its calls are
// found: "linked", "dlsym", "proc", or "linked proc". Built with BOOST_INSIDE the boost's own
// functions are part of the program, for sanitizers.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#ifdef BOOST_INSIDE
#include "intercept/hooks.hpp"
#endif

extern "C" {
int mock_pageable_copies();
int mock_captured_copies();
int mock_batches();
unsigned mock_launched();
void mock_fail_after(int copies);
void mock_always_fails(bool fail);
CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
#undef cuGetProcAddress
CUresult cuGetProcAddress_v2(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, std::size_t);
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr, const void*, std::size_t, CUstream);
CUresult cuMemcpyDtoH_v2_ptds(void*, CUdeviceptr, std::size_t);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void*, CUdeviceptr, std::size_t, CUstream);
}

namespace over_mock {

using Bytes = std::vector<unsigned char>;
constexpr std::size_t kMiB = 1 << 20;

inline void* found(const char* symbol, void* linked) {
  const char* lookup = std::getenv("LOOKUP");
  if (lookup == nullptr) lookup = "linked";
#ifdef BOOST_INSIDE
  return lanescope::intercept::wrapped_symbol(symbol, linked);
#else
  if (std::strcmp(lookup, "dlsym") == 0)
    return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), symbol);
  const bool finds_linked = std::strcmp(lookup, "linked proc") == 0;
  if (std::strcmp(lookup, "proc") != 0 && !finds_linked) return linked;
  const std::string whole = symbol;
  const bool per_thread = whole.find("_pt") != std::string::npos;
  const std::string name = whole.substr(0, whole.find('_'));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto looked_up =
      reinterpret_cast<decltype(&cuGetProcAddress_v2)>(dlsym(driver, "cuGetProcAddress_v2"));
  const auto find = finds_linked ? &cuGetProcAddress_v2 : looked_up;
  void* function = nullptr;
  find(name.c_str(), &function, 12000,
       per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT,
       nullptr);
  return function;
#endif
}

#define CALL(symbol)                                          \
  (reinterpret_cast<decltype(&::symbol)>([] {                 \
    static void* const it = found(#symbol, (void*)&::symbol); \
    return it;                                                \
  }()))

inline void to_gpu(CUdeviceptr to, const void* from, std::size_t bytes) {
  std::printf("to gpu: %d\n", CALL(cuMemcpyHtoD_v2)(to, from, bytes));
}
inline void from_gpu(void* to, CUdeviceptr from, std::size_t bytes) {
  std::printf("from gpu: %d\n", CALL(cuMemcpyDtoH_v2)(to, from, bytes));
}

inline Bytes some_bytes(std::size_t count, unsigned seed) {
  Bytes bytes(count + sizeof(std::uint64_t));
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (std::size_t at = 0; at < count; at += sizeof state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(bytes.data() + at, &state, sizeof state);
  }
  bytes.resize(count);
  return bytes;
}

inline std::uint64_t hash_of(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::uint64_t hash = bytes;
  for (std::size_t at = 0; at < bytes; at += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, std::min(sizeof word, bytes - at));
    hash = ((hash ^ word) * 0xff51afd7ed558ccd) ^ (hash >> 29);
  }
  return hash;
}

inline void show(const char* what, const void* data, std::size_t bytes) {
  std::printf("%s: %016llx\n", what, static_cast<unsigned long long>(hash_of(data, bytes)));
}

/// What is on a GPU once all that was begun is over; the mock's GPUs are memory of the host.
inline void show_gpu(const char* what, CUdeviceptr at, std::size_t bytes) {
  cuCtxSynchronize();
  show(what, reinterpret_cast<void*>(at), bytes);
}

inline CUdeviceptr on_gpu(std::size_t bytes) {
  CUdeviceptr made = 0;
  cuMemAlloc(&made, bytes);
  return made;
}

inline CUcontext begin(CUdevice device = 0) {
  CUcontext context = nullptr;
#ifdef BOOST_INSIDE
  static const auto init = reinterpret_cast<decltype(&cuInit)>(
      lanescope::intercept::wrapped("cuInit", reinterpret_cast<void*>(&cuInit)));
  init(0);
#else
  cuInit(0);
#endif
  cuCtxCreate_v2(&context, 0, device);
  return context;
}

inline CUstream new_stream(unsigned flags = CU_STREAM_DEFAULT) {
  CUstream made = nullptr;
  cuStreamCreate(&made, flags);
  return made;
}

/// Work of a GPU that takes a while and then fills memory with a value.
struct Fill {
  CUdeviceptr at;
  std::size_t bytes;
  int value;
  int ms = 20;
};

inline void do_fill(void* fill) {
  const auto& it = *static_cast<Fill*>(fill);
  std::this_thread::sleep_for(std::chrono::milliseconds(it.ms));
  std::memset(reinterpret_cast<void*>(it.at), it.value, it.bytes);
}

inline void launch(CUstream stream, Fill& fill) {
  cuLaunchHostFunc(stream, do_fill, &fill);
}

/// A case of a test program, by the name that it is called for.
struct Case {
  const char* name;
  void (*run)();
};

/// Run the case that the program's only word names, and end with 3; @return 1 without one.
template <std::size_t kCount>
int run_case(const Case (&cases)[kCount], int count, char** words) {
  for (const Case& one : cases)
    if (count == 2 && std::strcmp(one.name, words[1]) == 0) {
      one.run();
      std::fflush(stdout);
      _exit(3);  // streams go on for ever
    }
  return 1;
}

}  // namespace over_mock
