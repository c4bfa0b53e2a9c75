#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace lanescope {

/// What the host writes to the word of `launch_echo` to end the kernel.
inline constexpr std::uint32_t kEchoStop = 0xFFFFFFFF;

/// Launches a kernel of one thread that does nothing. Throws `Error`.
void launch_empty(cudaStream_t stream);

/// Launches a kernel of one thread that writes `value` to a word of host memory that the
/// device reaches. Throws `Error`.
void launch_signal(cudaStream_t stream, std::uint32_t* word, std::uint32_t value);

/// Launches a kernel of one thread that waits until `*ping` is 1, then writes 1 to
/// `*pong`, and so on to `turns`. It ends when `*ping` is `kEchoStop`, and by itself after
/// `timeout_ns`. Throws `Error`.
void launch_echo(cudaStream_t stream, const std::uint32_t* ping, std::uint32_t* pong,
                 std::uint32_t turns, std::uint64_t timeout_ns);

}  // namespace lanescope
