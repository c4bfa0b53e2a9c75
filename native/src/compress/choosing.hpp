#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compress/host_codec.hpp"

namespace lanescope::compress {

// Which codec makes an array smallest: found by coding some of its blocks.

using CopyPart = std::function<void(std::byte* to, std::span<const std::byte> part)>;

/// Bytes of the blocks by which a codec is chosen, eight spread over an array; all of a short one.
std::size_t sample_bytes(std::span<const std::byte> array);

/// Most bytes of them.
inline constexpr std::size_t kMostSampleBytes = 9 * kBlockBytes;  // less than nine are a short one

/// Copies them to `to`; `copy` brings each to the host's memory.
void copy_sample(std::span<const std::byte> array, std::byte* to, const CopyPart& copy);

/// The same into memory of their own.
std::vector<std::byte> sample_of(std::span<const std::byte> array, const CopyPart& copy);

/// The sample of an array in the host's memory: a short one itself.
class HostSample {
 public:
  explicit HostSample(std::span<const std::byte> array);
  operator std::span<const std::byte>() const noexcept {
    return own_.empty() ? array_ : std::span<const std::byte>(own_);
  }

 private:
  std::span<const std::byte> array_;
  std::vector<std::byte> own_;
};
HostSample sample_on_host(std::span<const std::byte> array);

/// What a sample becomes by a codec: found by pieces of it.
struct Sized {
  Codec codec;
  int dimensionality;
  double share;  // of the bytes that it has as it is
  UpdateKind difference = UpdateKind::none;
};

/// What it becomes by each of some codecs that take values of the type.
std::vector<Sized> sizes_of(Dtype dtype, std::span<const std::byte> sample,
                            std::span<const Codec> codecs);

/// What the update becomes whose values and base have such samples, by each of some codecs, with
/// the difference that makes it smaller.
std::vector<Sized> update_sizes_of(Dtype dtype, std::span<const std::byte> sample,
                                   std::span<const std::byte> base, std::span<const Codec> codecs);

/// The codec, and its dimensionality, that makes a sample smallest; raw where none saves 1 %.
Choice smallest(Dtype dtype, std::span<const std::byte> sample);

/// The same of an update; where a codec is given, with the difference that suits it.
Choice smallest_update(std::optional<Codec> codec, Dtype dtype, int dimensionality,
                       std::span<const std::byte> sample, std::span<const std::byte> base);

/// Bytes a second of what carries updates: NVLink 4 between GPUs, PCIe 5.0 with the host.
inline constexpr double kPeerLink = 395e9, kHostLink = 55e9;

/// The codec by which an update crosses a link soonest: by what each leaves of a sample, and by how
/// fast its kernels are. Of equal ones the one that leaves less.
Choice fastest_update(Dtype dtype, std::span<const std::byte> sample,
                      std::span<const std::byte> base, double link);

/// The codec that is given, or else the one that makes what `sample` returns smallest.
template <typename Sample>
Choice choice_of(std::optional<Codec> codec, Dtype dtype, int dimensionality, Sample sample) {
  if (codec) return {*codec, dtype, dimensionality};
  return smallest(dtype, sample());
}

}  // namespace lanescope::compress
