#include "watch/library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "error.hpp"

namespace lanescope::watch {

namespace {

constexpr const char* kBesideCupti[] = {"libnvperf_host.so", "libnvperf_target.so"};

std::string chosen(const char* variable, const char* usual) {
  const char* path = std::getenv(variable);
  return path != nullptr && *path != '\0' ? path : usual;
}

}  // namespace

Library::Library(const std::string& path, const char* missing) : path_(path) {
  handle_ = dlopen(path.c_str(), RTLD_NOW);
  if (handle_ != nullptr) return;
  const char* reason = dlerror();
  throw Error("dlopen", 0, missing, reason == nullptr ? path : reason);
}

void* Library::find(const char* name) const noexcept {
  return dlsym(handle_, name);
}

void* Library::require(const char* name) const {
  void* address = find(name);
  if (address == nullptr) throw Error("dlsym", 0, "too old", path_ + " has no " + name);
  return address;
}

Library open_cupti(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  // What cannot be opened is told by the calls that need it.
  for (const char* name : kBesideCupti) dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
  return {path, "no CUPTI"};
}

Library open_nvml() {
  return {chosen("LANESCOPE_NVML", "libnvidia-ml.so.1"), "no driver"};
}

Library open_cuda() {
  Library cuda(chosen("LANESCOPE_LIBCUDA", "libcuda.so.1"), "no driver");
  if (const int code = cuda.function<int (*)(unsigned)>("cuInit")(0))
    throw Error("cuInit", code, code == 100 ? "cudaErrorNoDevice" : "CUDA refused",
                "CUDA cannot begin");
  return cuda;
}

}  // namespace lanescope::watch
