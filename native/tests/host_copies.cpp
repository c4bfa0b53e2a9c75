// The library's copies between a GPU and memory that is not pinned, over the driver of
// mock_driver.cpp. Prints "well", or what is not.
#include "lanescope/host_copies.hpp"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Bytes = std::vector<std::byte>;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::_Exit(1);
}

template <class Action>
std::string said(Action action) {
  try {
    action();
  } catch (const lanescope::compression::Error& error) {
    return error.what();
  }
  return "";
}

std::span<std::byte> on_gpu(CUcontext context, std::size_t bytes) {
  CUdeviceptr made = 0;
  cuCtxSetCurrent(context);
  cuMemAlloc(&made, bytes);
  return {reinterpret_cast<std::byte*>(made), bytes};
}

void copy_both_ways(CUcontext context, int gpu) {
  for (const std::size_t bytes : {1UL, 4096UL, 262144UL, 9'000'001UL}) {
    const auto there = on_gpu(context, bytes);
    CUstream stream = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuCtxSetCurrent(nullptr);
    Bytes values(bytes), back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 251);
    const Bytes expected = values;
    cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(there.data()), 1, bytes, stream);
    lanescope::copy_to_gpu(values, there, stream, gpu);
    std::memset(values.data(), 0, bytes);  // it has returned
    lanescope::copy_to_host(there, back, stream, gpu);
    require(back == expected, "bytes differ");
    CUcontext current = nullptr;
    cuCtxGetCurrent(&current);
    require(current == nullptr, "a context is left");
  }
}

}  // namespace

int main() {
  Bytes one(300'000), other(300'001);
  require(said([&] {
            lanescope::copy_to_gpu(one, one, nullptr, 0);
          }).find("CUDA has not begun in this process") != std::string::npos,
          "CUDA that has not begun is not named");
  cuInit(0);
  for (const int gpu : {0, 1}) {
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, gpu);
    copy_both_ways(context, gpu);
  }
  require(said([&] { lanescope::copy_to_gpu(one, other, nullptr, 0); }) ==
              "a copy is from 300000 bytes to 300001; give as many of both",
          "sizes that differ are not refused");
  require(said([&] {
            lanescope::copy_to_host(one, one, nullptr, 5);
          }).starts_with("cannot copy 300000 bytes from GPU 5: the driver returns 101"),
          "a GPU that is not there is not named");
  std::puts("well");
  std::fflush(stdout);
  std::_Exit(0);  // streams go on for ever
}
