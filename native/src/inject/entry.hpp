#pragma once

#include <cerrno>

#include "inject/activation.hpp"

namespace lanescope::inject {

/// @return the callbacks that lead to this process's tracer.
Callbacks callbacks() noexcept;

/// Begin to trace, unless that has been done.
void begin_tracer();

/// Write what waits in the log of ranges; nothing where nothing is traced.
void write_ranges() noexcept;

/// The program uses NVTX: what only ranges need is traced from now on.
void ranges_begun() noexcept;

/// @return whether it does by now.
bool ranges_in_use() noexcept;

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
