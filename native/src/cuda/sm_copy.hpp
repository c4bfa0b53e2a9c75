#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanescope {

/// What a kernel does to each byte: copies it; only reads it, into a sum; only writes it.
enum class SmWork { copy, read, write };

/// How a kernel copies.
struct SmShape {
  int sms;          ///< Thread blocks; up to the number of SMs, each gets one of its own.
  int chunk_bytes;  ///< Of a bulk copy through shared memory, times of 16; 0: loads and stores.
  double pace_gbs;  ///< Rate of all blocks together that is not exceeded, GB/s; 0: no limit.
  int in_step_with = -1;  ///< An earlier copy of a set whose kernel does this one, too; -1: none.
  int chunk_repeats = 1;  ///< Times that a bulk copy is done before the next.
  SmWork work = SmWork::copy;  ///< Others go one way, by loads or stores.
};

/// A kernel that only writes repeats the first so many bytes of the source.
constexpr std::size_t kWrittenPeriod = std::size_t{32} << 10;

/// From where to where; both addresses are 16-byte aligned.
struct SmWay {
  void* destination;
  const void* source;
};
constexpr std::size_t kMostSmWays = 2;

/// Where a copy kernel leaves its times, in memory of its device.
struct WindowTimes {
  std::uint64_t* nanoseconds;  ///< [0]: begin; [w + 1]: end of window w. The device's clock.
  unsigned* arrived;           ///< [w]: blocks that have ended window w; 0 before the launch.
};

/// Loads the kernels onto the current device. Kernels are loaded when first used, and
/// that waits for the device, which a closed gate holds. Throws `Error`.
void preload_sm_copy();

/// Launches one kernel that copies `bytes` bytes each way, `windows` times `loops` times
/// over, and notes when each window of `loops` copies has ended in all blocks. Several
/// ways go in step: every block copies a piece of each in turn, so that none gets ahead.
/// All blocks must fit on the device at once. Bulk copies load ahead across windows.
/// With `chunk_repeats` a loop copies as much, but the same part of the bytes so often, and the
/// next loop the next part. One that only reads adds the sum of all 64-bit words that it has read
/// (of a last part, of its bytes) to the first word of the destination. Throws `Error`.
void launch_sm_copy(cudaStream_t stream, int device, const std::vector<SmWay>& ways,
                    std::size_t bytes, const SmShape& shape, int windows, int loops,
                    const WindowTimes& times);

}  // namespace lanescope
