#pragma once

#include <string>

namespace lanescope::watch {

/// A shared library that is opened at run time and stays open until the process ends.
///
/// It is never closed: CUPTI and NVML keep threads and handlers of their own.
class Library {
 public:
  /// Opens a file, or what the loader finds by a name. Throws `Error` named `missing` with the
  /// loader's reason.
  Library(const std::string& path, const char* missing);

  /// The file that was opened.
  const std::string& path() const noexcept { return path_; }

  /// Address of `name`, or nullptr.
  void* find(const char* name) const noexcept;

  /// The function `name`. Throws `Error` named "too old" where the library lacks it.
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(require(name));
  }

 private:
  void* require(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

/// Opens libcupti, a file with its folder, and before it the nvperf libraries that lie beside
/// it: libcupti asks the loader for them by bare name. Throws `Error` named "no CUPTI".
Library open_cupti(const std::string& path);

/// Opens libnvidia-ml.so.1, or $LANESCOPE_NVML. Throws `Error` named "no driver".
Library open_nvml();

/// Opens libcuda.so.1, or $LANESCOPE_LIBCUDA, and begins CUDA with it: no context. Throws `Error`
/// named "no driver", or of CUDA's code where CUDA refuses.
Library open_cuda();

}  // namespace lanescope::watch
