#pragma once

#include <cuda.h>
#include <pthread.h>

#include "boost/driver.hpp"

namespace lanescope::boost {

/// As long as this lives the thread is not cancelled: it may hold a lock.
class Uncancelled {
 public:
  Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// While a copy is made: the thread is not cancelled amid it, and what it does in other streams
/// harms no capture that another thread has begun.
class Undisturbed {
 public:
  Undisturbed() noexcept {
    exchanged_ = driver().cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~Undisturbed() {
    if (exchanged_) driver().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  Uncancelled uncancelled_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace lanescope::boost
