#include "lanescope/host_copies.hpp"

#include <dlfcn.h>

#include <string>

#include "boost/direct.hpp"
#include "boost/wrappers.hpp"
#include "intercept/real_dlsym.hpp"
#include "library/seam.hpp"

// What is different where the carrying code is part of a program and stands before nothing.
namespace lanescope::intercept {

void* driver_symbol(const char* name) noexcept {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);  // held: it stays loaded
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

}  // namespace lanescope::intercept

namespace lanescope::boost {

bool stand_before_driver(Direction) noexcept {
  return false;
}

CUresult settle_before_driver() noexcept {
  return CUDA_SUCCESS;
}

}  // namespace lanescope::boost

namespace lanescope {

namespace {

using compression::Error;
using compression::ErrorCode;

/// @return the function of a boosted process, whose ring, rule and tally are there already; else
/// our own.
auto copy_function() {
  using Copy = decltype(&lanescope_boost_copy);
  static const auto preloaded = reinterpret_cast<Copy>(dlsym(RTLD_DEFAULT, "lanescope_boost_copy"));
  return preloaded != nullptr ? preloaded : &lanescope_boost_copy;
}

std::string why(int result) {
  constexpr int kNotInitialized = 3, kNotSupported = 801, kCaptured = 900;
  if (result == kNotInitialized)
    return "CUDA has not begun in this process, or it is a child by fork; use it for the GPU first";
  if (result == kNotSupported) return "the driver is older than CUDA 12; install a newer one";
  if (result == kCaptured)
    return "the stream is captured into a CUDA graph, which holds no such copy; copy before that";
  const char* text = lanescope_boost_error(result);
  return text == nullptr ? "the driver returns " + std::to_string(result)
                         : std::string("the driver says '") + text + "'";
}

void copy(std::span<const std::byte> from, std::span<std::byte> to, cudaStream_t on, int gpu,
          bool is_to_gpu) {
  if (from.size() != to.size())
    compression::refuse("a copy is from " + std::to_string(from.size()) + " bytes to " +
                        std::to_string(to.size()) + "; give as many of both");
  const int result = copy_function()(reinterpret_cast<std::uint64_t>(to.data()),
                                     reinterpret_cast<std::uint64_t>(from.data()), from.size(),
                                     reinterpret_cast<std::uint64_t>(on), gpu, is_to_gpu ? 1 : 0);
  if (result == 0) return;
  throw Error(ErrorCode::cuda, result,
              "cannot copy " + std::to_string(from.size()) + " bytes " +
                  (is_to_gpu ? "to" : "from") + " GPU " + std::to_string(gpu) + ": " + why(result));
}

}  // namespace

void copy_to_gpu(std::span<const std::byte> from, std::span<std::byte> to, cudaStream_t on,
                 int gpu) {
  copy(from, to, on, gpu, true);
}

void copy_to_host(std::span<const std::byte> from, std::span<std::byte> to, cudaStream_t on,
                  int gpu) {
  copy(from, to, on, gpu, false);
}

}  // namespace lanescope
