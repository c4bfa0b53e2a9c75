#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/cuda_handles.hpp"

namespace lanescope {

/// Opens a gate when it goes out of scope, however the scope is left.
///
/// A copy cannot exist: two owners would disagree on when the gate opens.
class OpenOnExit {
 public:
  explicit OpenOnExit(volatile int& open) noexcept : open_(open) {}
  ~OpenOnExit() { open_ = 1; }
  OpenOnExit(const OpenOnExit&) = delete;
  OpenOnExit& operator=(const OpenOnExit&) = delete;

 private:
  volatile int& open_;
};

/// Opens a gate after a while, unless it goes out of scope before.
class OpenLate {
 public:
  /// Throws `Error` when no thread more is allowed.
  OpenLate(volatile int& open, double patience_s);
  OpenLate(const OpenLate&) = delete;
  OpenLate& operator=(const OpenLate&) = delete;

 private:
  std::jthread thread_;
};

/// Holds streams back until everything is queued, then starts them together.
class Gate {
 public:
  /// For streams of any device; `device` is one that works. Throws `Error`.
  explicit Gate(int device);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Closes the gate on all streams, calls `queue`, opens it and waits for the
  /// streams. When `queue` throws, the gate opens and the streams drain before the
  /// error goes on. Throws `Error` when the streams do not end in time.
  ///
  /// The gate opens after `patience_s` seconds if `queue` has not returned: it may be
  /// waiting for what it has queued itself.
  void run(const std::vector<const Stream*>& streams, const std::function<void()>& queue,
           std::optional<double> patience_s = {});

  /// Whether no stream of a run waits or works any more: it can run again.
  bool is_drained() const noexcept { return drained_; }

 private:
  struct Words {  // pinned, seen by all devices
    volatile int open;
    volatile int timed_out;
  };
  Words* words_ = nullptr;
  bool drained_ = true;  // whether all streams have ended since the last run began
};

/// Waits for a stream, but not forever: throws `Error` after `timeout_s` seconds,
/// as a GPU that has fallen off the bus never answers.
void wait_for(const Stream& stream, double timeout_s);

/// Waits for streams, `timeout_s` seconds for each. Where one fails the others are waited for
/// all the same, as their memory may be lent to others next. Throws `Error`.
void wait_for_all(const std::vector<const Stream*>& streams, double timeout_s);

/// Waits for streams after a failure, for `timeout_s` seconds in all; false when one failed,
/// too, or did not end in time.
bool drain(const std::vector<const Stream*>& streams, double timeout_s) noexcept;

}  // namespace lanescope
