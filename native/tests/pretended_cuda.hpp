#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace pretended {

/// Of the order in which things happen.
void seed(std::uint64_t seed);
std::uint64_t draw();

/// Lets all happen that can.
void let_all_happen();

/// What all devices have together.
void limit_device_memory(std::size_t bytes);

/// Something that happens on a stream.
void put(cudaStream_t stream, std::function<void()> action);

/// What the runtime says to a call for a stream: whether its device has failed. Some of what can
/// happen does meanwhile. Pretended kernels ask it when they are put on a stream.
cudaError_t called_for(cudaStream_t stream);

/// When so many more calls have come for streams of a device, nothing happens on it any more, and
/// whoever calls is told so; until it is repaired, which forgets what was on its streams.
void fail_after(int device, std::size_t calls);
void repair(int device);

/// Lets one call fail, after so many others of all for streams, or of those by which streams wait
/// for words; and whether it did.
enum class Calls { all, waits_for_words };
void fail_one_after(std::size_t calls, Calls of = Calls::all);
bool has_failed_one();

/// Whether streams wait for words in memory; they do until this says otherwise.
void let_streams_take_values(bool they_do);

/// How much is left on the streams of a device.
std::size_t steps_left(int device);

/// The same, not before it is able to.
void put_when(cudaStream_t stream, std::function<bool()> able, std::function<void()> action);

}  // namespace pretended
