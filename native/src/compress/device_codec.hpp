#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/device_kernels.hpp"
#include "compress/format.hpp"
#include "compress/host_codec.hpp"
#include "compress/nvcomp.hpp"
#include "compress/stream_memory.hpp"

namespace lanescope::compress {

/// An array in the current device's memory, coded there. The stream of it is the one that the host
/// makes, to the bit, where the host has that codec; it can be written once its length is known and
/// there is memory for it.
class DeviceEncoding {
 public:
  /// Codes on so many SMs (0: all), after what was put into `stream` before, and waits for it.
  /// Codecs of nvCOMP, which is given where it is there, take as many SMs as they will. Throws
  /// `Error`. An update has its base in the same memory, and takes as much for differences as the
  /// array has.
  DeviceEncoding(const Choice& choice, std::span<const std::byte> data,
                 std::span<const std::uint64_t> shape, int sms, cudaStream_t stream,
                 const Nvcomp* nvcomp = nullptr, Base base = {});

  std::size_t stream_bytes() const noexcept { return header_.stored_bytes; }

  /// Puts the stream to device memory, aligned to 16 bytes; returns when it is there. Throws
  /// `Error` where there is less room, or the array lies there.
  void write(std::span<std::byte> out) const;

 private:
  void encode(const Choice& choice, std::span<const std::byte> data, int sms, const Sink& sink,
              const Nvcomp* nvcomp) const;

  std::span<const std::byte> data_;
  Base base_;
  std::size_t blocks_;
  cudaStream_t stream_;
  StreamMemory entries_;
  StreamMemory payloads_;
  Header header_;
  std::vector<std::uint64_t> words_;  // behind the header
};

/// Compresses as `compress_on_host` does, from and into memory of the current device, of which
/// `out` has `most_stream_bytes`, in the order of a stream; returns the length of what it made when
/// that is there. Throws `Error`.
std::size_t compress_on_device(const Choice& choice, std::span<const std::byte> data,
                               std::span<const std::uint64_t> shape, std::span<std::byte> out,
                               cudaStream_t stream, int sms = 0, const Nvcomp* nvcomp = nullptr,
                               Base base = {});

/// The layout of a stream in the current device's memory. Throws `Error` as `layout_of`.
Layout layout_on_device(std::span<const std::byte> compressed, cudaStream_t stream);

/// Decompresses as `decompress_on_host` does, within the current device's memory, and waits for it.
/// Throws `Error` that names the block where a payload is not what the stream says. An update takes
/// as much memory for differences as the array has, so that nothing is written before all of them
/// are checked.
void decompress_on_device(const Layout& layout, std::span<const std::byte> compressed,
                          std::span<std::byte> out, cudaStream_t stream, int sms = 0,
                          const Nvcomp* nvcomp = nullptr, Base base = {});

/// Compresses an array in the host's memory on a device, where the codec is one of nvCOMP's, which
/// the host has not; into `most_stream_bytes`. Returns the stream's length. Throws `Error`.
std::size_t compress_through_device(int device, const Choice& choice,
                                    std::span<const std::byte> data,
                                    std::span<const std::uint64_t> shape, std::span<std::byte> out,
                                    const Nvcomp& nvcomp);

/// Decompresses a stream in the host's memory on a device. Throws `Error`.
void decompress_through_device(int device, std::span<const std::byte> compressed,
                               std::span<std::byte> out, const Nvcomp& nvcomp);

}  // namespace lanescope::compress
