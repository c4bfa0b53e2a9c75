#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>

#include "boost/copy.hpp"
#include "boost/gathered.hpp"

namespace lanescope::boost {

/// Pinned memory of one context for copies that are gathered, in chunks of one batch each. Who has
/// locked what is gathered uses it.
class Staging {
 public:
  /// Pin it for a context, which is current; forget that of a context that is no more.
  /// @return whether that could be.
  bool open(const Context& context) noexcept;

  [[nodiscard]] bool is_free() const noexcept { return context_.handle == nullptr; }
  [[nodiscard]] bool is_of(const Context& context) const noexcept {
    return !is_free() && context_.id == context.id;
  }
  /// @return whether it was of a context that is no more: another one has its handle.
  [[nodiscard]] bool is_left_by(const Context& context) const noexcept {
    return context_.handle == context.handle && context_.id != context.id;
  }
  /// @return whether batches work here.
  [[nodiscard]] bool is_usable() const noexcept { return !is_broken_; }
  /// @return whether GPUs read and write pageable memory here: work of a stream may write what is
  /// to be copied behind it.
  [[nodiscard]] bool is_shared() const noexcept { return is_shared_; }

  /// Note what a stream has been given until now.
  bool note_start(CUstream stream) noexcept;
  /// @return whether the stream has done that.
  [[nodiscard]] bool has_started() const noexcept;

  /// @return another chunk; null where the GPU may still read all of them, or threads write there.
  char* next_chunk() noexcept;

  /// Keep the chunk as it is while bytes are written there.
  /// @return its number.
  std::size_t hold() noexcept {
    ++writers_[chunk_];
    return chunk_;
  }
  void release(std::size_t chunk) noexcept { --writers_[chunk]; }

  /// Have the GPU copy what is in the newest chunk, behind what the stream was given before.
  CUresult issue(Gathered& batch, CUstream stream) noexcept;

 private:
  static constexpr std::size_t kChunks = 8, kBytes = kChunks * Gathered::kMostBytes;

  CUresult together(Gathered& batch, CUstream stream) noexcept;
  CUresult around(Gathered& batch) noexcept;

  Context context_;
  char* memory_ = nullptr;
  bool is_broken_ = false, is_shared_ = false;
  std::size_t chunk_ = 0;
  std::array<CUevent, kChunks> arrivals_{};
  std::array<int, kChunks> writers_{};
  CUevent start_ = nullptr, before_ = nullptr, after_ = nullptr;
  CUstream own_ = nullptr;
};

/// @return whether the driver makes batches of copies: it is of CUDA 12.8 or newer.
bool has_batches() noexcept;

}  // namespace lanescope::boost
