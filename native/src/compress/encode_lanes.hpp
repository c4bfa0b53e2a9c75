#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <optional>

#include "compress/device_blocks.hpp"
#include "compress/stream_order.hpp"
#include "cuda/cuda_handles.hpp"

namespace lanescope::compress {

/// Two streams by which what leaves a GPU goes to the host, one transfer after another. Kernels
/// that code take turns on them: the next one begins when few blocks of the one before are left,
/// which that says in a word of memory, so that the link does not idle between them. All else goes
/// by the first stream.
class EncodeLanes {
 public:
  /// Throws `Error`.
  explicit EncodeLanes(int gpu);

  /// Chooses the stream of the next transfer, which a kernel that reports its progress makes, or
  /// not; returns whether it may begin before the one before has ended. What the transfer needs may
  /// be put on the stream then, before `begin`. Throws `Error`.
  bool choose(bool reports);

  /// Lets the stream wait for the transfer before and for an event. Throws `Error`.
  void begin(const Event& ready);

  /// What the kernel is to report that is put on the stream next; and that it was put there.
  Progress progress();
  void note_launch() { reports_ = words_.has_value(); }

  cudaStream_t stream() const { return current().get(); }
  const Stream& current() const { return streams_[lane_]; }

 private:
  unsigned int* word(std::size_t lane) const {
    return words_ ? static_cast<unsigned int*>(words_->data()) + lane : nullptr;
  }
  void make_words(int gpu);

  /// Kernels code as fast as the link, on few SMs: behind all blocks of a large kernel of the
  /// caller's the link would be idle.
  std::array<Stream, 2> streams_;
  std::optional<DeviceMemory> words_;  // none without memory, or where streams take no values
  Event behind_;                       // the end of what is on the other stream
  std::size_t lane_ = 0;
  unsigned int mark_ = 0;  // that the last kernel reports
  bool reports_ = false;   // whether that is what was put on a stream last
  enum class Wait { none, progress, end } wait_ = Wait::none;
};

}  // namespace lanescope::compress
