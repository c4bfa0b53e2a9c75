#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/device_kernels.hpp"
#include "compress/host_codec.hpp"
#include "compress/nvcomp.hpp"
#include "compress/nvcomp_kernels.hpp"
#include "compress/stream_memory.hpp"

namespace lanescope::compress {

/// What nvCOMP is given of chunks, and says of them, in the current device's memory; owner. Any
/// part of them, in order, can be given to it at a time.
class NvcompTable {
 public:
  /// A chunk's place and size, and those of what becomes of it.
  struct Chunk {
    const std::byte* in;
    std::size_t in_bytes;
    std::byte* out;
    std::size_t out_room;
  };

  /// Throws `Error`.
  NvcompTable(std::span<const Chunk> chunks, cudaStream_t stream);

  std::size_t count() const noexcept { return count_; }
  const std::size_t* out_bytes() const noexcept { return answers_.as<std::size_t>(); }
  const int* statuses() const noexcept { return statuses_.as<int>(); }

  /// Calls `step` with as many chunks at a time as nvCOMP is given.
  template <typename Step>
  void each_part(Step step) const {
    for (std::size_t first = 0; first < count_; first += kMostAtOnce)
      step(part(first, count_ - first < kMostAtOnce ? count_ - first : kMostAtOnce));
  }

 private:
  static constexpr std::size_t kMostAtOnce = 16384;  // 1 GiB of what is not coded

  NvcompChunks part(std::size_t first, std::size_t count) const;
  /// One of the arrays of numbers and addresses that lie behind each other.
  template <typename T>
  T* input(std::size_t number) const {
    return reinterpret_cast<T*>(inputs_.as<std::uint64_t>() + number * count_);
  }

  std::size_t count_;
  std::vector<std::uint64_t> on_host_;  ///< As long as it may be on its way.
  StreamMemory inputs_, answers_, statuses_;
};

/// Codes the blocks of an array by nvCOMP, in the order of a stream, as often as is wanted, and
/// makes entries and payloads of them as `encode_blocks` does.
class NvcompEncoder {
 public:
  /// Bytes of memory that the payloads of so many bytes need: each its own slot. Throws `Error`.
  static std::size_t room_of(const Nvcomp& nvcomp, const Choice& choice, std::size_t bytes);

  /// `data` and the sink's payloads, which have `room_of`, are aligned to 16. Throws `Error`.
  NvcompEncoder(const Nvcomp& nvcomp, const Choice& choice, std::span<const std::byte> data,
                const Sink& sink, cudaStream_t stream);

  /// Returns at once; `Sink::used` is 0 before. Throws `Error`.
  void encode() const;

  /// Waits, and throws `Error` where nvCOMP could not code a block.
  void require_coded() const;

 private:
  std::vector<NvcompTable::Chunk> chunks() const;

  NvcompCodec codec_;
  Choice choice_;
  std::span<const std::byte> data_;
  Sink sink_;
  cudaStream_t stream_;
  std::size_t slot_bytes_;
  NvcompTable table_;
  StreamMemory failed_;
};

/// Decodes what `NvcompEncoder` made, wherever it lies now, as often as is wanted.
class NvcompDecoder {
 public:
  /// The entries lie on the host until `check` returns, payloads and `out` in the device's memory,
  /// aligned to 16. Throws `Error`, also where a block needs nvCOMP and it is not given.
  NvcompDecoder(const Nvcomp* nvcomp, const Choice& choice, const Binding& binding,
                std::span<const Entry> entries, const std::byte* payloads, std::size_t room,
                std::span<std::byte> out, cudaStream_t stream);

  /// Puts back what nvCOMP did not code, and waits for it; the lowest block that is not as it was,
  /// if one is. Then nvCOMP must not be given the others. Throws `Error`.
  std::optional<std::size_t> check() const;

  /// Decodes the other blocks, and waits for it. Throws `Error` that names the lowest block that
  /// does not come back.
  void decode() const;

 private:
  unsigned long long wrong() const;

  std::optional<NvcompCodec> codec_;
  cudaStream_t stream_;
  std::vector<std::uint32_t> coded_;  ///< Blocks that nvCOMP coded.
  StreamMemory entries_, wrong_, numbers_;
  Checking checking_;
  NvcompTable table_;
};

}  // namespace lanescope::compress
