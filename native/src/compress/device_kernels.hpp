#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "compress/device_blocks.hpp"
#include "compress/host_codec.hpp"

namespace lanescope::compress {

/// Codes `bytes` bytes of values on so many SMs (0: all) of the current device; or their
/// differences, where the sink says what to.
/// Returns at once; throws `Error` where the launch fails or the choice is impossible.
void encode_blocks(const Choice& choice, const Values& values, std::size_t bytes, const Sink& sink,
                   int sms, cudaStream_t stream);

/// Loads both kernels of a choice to the current device, which their first launch does else, while
/// others wait. Throws `Error`.
void load_kernels(const Choice& choice);

/// Decodes what `encode_blocks` made, wherever it lies now, into `bytes` bytes at `out` (aligned to
/// 16), and compares checksums, with the binding that the sink had. Never reads outside of the
/// first `room` bytes of `payloads`, nor writes outside of `out`, whatever entries and payloads
/// hold.
void decode_blocks(const Choice& choice, const Binding& binding, const Entry* entries,
                   const std::byte* payloads, std::size_t room, std::byte* out, std::size_t bytes,
                   Fault* fault, int sms, cudaStream_t stream, const Arrival& arrival = {});

/// The same of the chosen blocks of an array of `bytes` bytes, one behind another to `out`, which
/// has room for as many whole blocks.
void decode_chosen_blocks(const Choice& choice, const Binding& binding, const Entry* entries,
                          const std::byte* payloads, std::size_t room, std::byte* out,
                          std::size_t bytes, const Chosen& chosen, Fault* fault, int sms,
                          cudaStream_t stream);

/// Decodes the blocks of an update, whose differences are put onto a base; see `PutBase` for what
/// is written.
void decode_onto_base(const Choice& choice, const Binding& binding, const Entry* entries,
                      const std::byte* payloads, std::size_t room, const PutBase& put,
                      std::byte* out, std::size_t bytes, Fault* fault, int sms, cudaStream_t stream,
                      const Arrival& arrival = {});

/// Of an update, what its kernels keep meanwhile, where they do: so many bytes on a device with so
/// many SMs.
constexpr std::size_t bytes_kept_on(int sms) {
  return static_cast<std::size_t>(sms) * kMostGroups * kBlockBytes;
}

}  // namespace lanescope::compress
