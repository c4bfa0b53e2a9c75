#include "cuda/cuda_handles.hpp"
#include "cuda/device_clock.cuh"
#include "cuda/latency_kernels.hpp"

namespace lanescope {

namespace {

// Looking at the clock takes time too: not at every look at the word.
constexpr unsigned kLooksPerClock = 64;

__global__ void empty_kernel() {}

__global__ void signal_kernel(volatile std::uint32_t* word, std::uint32_t value) {
  *word = value;
}

__global__ void echo_kernel(const volatile std::uint32_t* ping, volatile std::uint32_t* pong,
                            std::uint32_t turns, std::uint64_t timeout_ns) {
  const std::uint64_t begin = global_nanoseconds();
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    for (unsigned looks = 1;; ++looks) {
      const std::uint32_t seen = *ping;
      if (seen == turn) break;
      if (seen == kEchoStop) return;
      if (looks % kLooksPerClock == 0 && global_nanoseconds() - begin > timeout_ns) return;
    }
    // No fence: the word is all that is passed, nothing has to be seen before it.
    *pong = turn;
  }
}

}  // namespace

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
  check(cudaGetLastError(), "launch of the empty kernel");
}

void launch_signal(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) {
  signal_kernel<<<1, 1, 0, stream>>>(word, value);
  check(cudaGetLastError(), "launch of the signal kernel");
}

void launch_echo(cudaStream_t stream, const std::uint32_t* ping, std::uint32_t* pong,
                 std::uint32_t turns, std::uint64_t timeout_ns) {
  echo_kernel<<<1, 1, 0, stream>>>(ping, pong, turns, timeout_ns);
  check(cudaGetLastError(), "launch of the echo kernel");
}

}  // namespace lanescope
