#pragma once

#include <cerrno>

namespace lanescope::inject {

/// Keeps errno as the program had it.
class SameErrno {
 public:
  SameErrno() noexcept : before_(errno) {}
  ~SameErrno() { errno = before_; }
  SameErrno(const SameErrno&) = delete;
  SameErrno& operator=(const SameErrno&) = delete;

 private:
  int before_;
};

}  // namespace lanescope::inject
