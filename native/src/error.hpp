#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace lanescope {

/// The one error type of the core: a call that failed, its code, and where.
///
/// `code` is the callee's own number (errno, cudaError_t, ...), `name` its
/// symbolic name such as "cudaErrorMemoryAllocation".
class Error : public std::runtime_error {
 public:
  Error(std::string call, int code, std::string name, std::string detail,
        std::source_location where = std::source_location::current());

  const std::string& call() const noexcept { return call_; }
  int code() const noexcept { return code_; }
  const std::string& name() const noexcept { return name_; }
  const std::string& detail() const noexcept { return detail_; }
  const std::string& where() const noexcept { return where_; }

 private:
  std::string call_;
  int code_;
  std::string name_;
  std::string detail_;
  std::string where_;
};

/// Throws an `Error` with the current errno.
[[noreturn]] void throw_errno(const std::string& call,
                              std::source_location where = std::source_location::current());

}  // namespace lanescope
