#pragma once

#include <cuda.h>
#include <pthread.h>

#include "boost/driver.hpp"

namespace lanescope::boost {

/// While a copy is made: the thread is not cancelled amid it, and what it does in other streams
/// harms no capture that another thread has begun.
class Undisturbed {
 public:
  Undisturbed() noexcept {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled_);
    exchanged_ = driver().cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~Undisturbed() {
    if (exchanged_) driver().cuThreadExchangeStreamCaptureMode(&mode_);
    pthread_setcancelstate(cancelled_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  int cancelled_ = PTHREAD_CANCEL_ENABLE;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace lanescope::boost
