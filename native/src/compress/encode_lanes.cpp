#include "compress/encode_lanes.hpp"

#include <utility>

#include "cuda/stream_values.hpp"

namespace lanescope::compress {

namespace {

/// 16 MiB of values take 0.2 to 0.3 ms, as long as a kernel may have to wait for an SM.
constexpr unsigned int kLeftBlocks = 256;

}  // namespace

EncodeLanes::EncodeLanes(int gpu)
    : streams_{Stream(gpu, Priority::highest), Stream(gpu, Priority::highest)},
      behind_(event_on(gpu, Timing::none)) {
  make_words(gpu);
}

/// Without them kernels come one behind another.
void EncodeLanes::make_words(int gpu) {
  const ScopedDevice scope(gpu);
  try {
    words_.emplace(gpu, streams_.size() * sizeof(unsigned int));
  } catch (const Error& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    return;
  }
  zero(gpu, words_->data(), streams_.size() * sizeof(unsigned int));
  if (!streams_take_values(streams_[0].get(), word(0))) words_.reset();
}

bool EncodeLanes::choose(bool reports) {
  // Also where a call fails: the other lane's word would be waited for, and nobody would write it.
  const bool before_reports = std::exchange(reports_, false);
  const bool never_began = std::exchange(wait_, Wait::none) != Wait::none;
  if (reports && before_reports) {
    lane_ = 1 - lane_;
    wait_ = Wait::progress;
  } else if (lane_ != 0 || never_began) {
    record(behind_, streams_[1].get());
    lane_ = 0;
    wait_ = Wait::end;
  }
  return wait_ == Wait::progress;
}

void EncodeLanes::begin(const Event& ready) {
  if (wait_ == Wait::progress) wait_for_value(stream(), word(1 - lane_), mark_);
  if (wait_ == Wait::end) let_wait(stream(), behind_);
  wait_ = Wait::none;
  let_wait(stream(), ready);
}

Progress EncodeLanes::progress() {
  Progress progress;
  if (!words_) return progress;
  progress.mark = ++mark_;
  progress.taken = word(lane_);
  progress.left = kLeftBlocks;
  return progress;
}

}  // namespace lanescope::compress
