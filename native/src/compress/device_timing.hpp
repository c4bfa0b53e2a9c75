#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compress/host_codec.hpp"
#include "compress/nvcomp.hpp"

namespace lanescope::compress {

/// How long the kernels took, each time, by events of the device.
struct DeviceTimes {
  std::vector<double> encode_s;
  std::vector<double> decode_s;
  std::size_t payload_bytes = 0;  ///< Of all blocks, padded.
};

/// Encodes and decodes an array in a device's memory so many times, on so many SMs (0: all), after
/// a first time that does not count. What is decoded goes to `out`, as many bytes of the same
/// device, or to memory of its own. An update has a base of as many bytes. Throws `Error`, also
/// where what comes back has a fault.
DeviceTimes time_on_device(int device, const Choice& choice, std::span<const std::byte> data,
                           int sms, int repeats, std::byte* out = nullptr,
                           const std::byte* base = nullptr);

/// The same by one of nvCOMP's codecs, which work on as many SMs as they will. To decode, the host
/// waits once in the middle, for the checksums of payloads; that counts. Throws `Error`.
DeviceTimes time_nvcomp(int device, const Nvcomp& nvcomp, const Choice& choice,
                        std::span<const std::byte> data, int repeats, std::byte* out);

}  // namespace lanescope::compress
