#pragma once

#include <cupti.h>

#include <cstdint>
#include <optional>

namespace lanescope::inject {

enum class Way : std::uint8_t { unknown, to_device, from_device };

/// What a program passed to a call that copies.
/// Where a call puts what it asks for, or what it waits for.
struct Queue {
  std::uint64_t stream = 0;   ///< its handle; the default stream is CU_STREAM_LEGACY or _PER_THREAD
  std::uint32_t context = 0;  ///< CUPTI's number of the thread's; 0: not known
};

struct CopyCall {
  std::uint64_t source;
  std::uint64_t destination;
  std::uint64_t bytes;
  Way way;
  bool asynchronous = false;
  Queue queue{};  ///< of an asynchronous call
};

/// A call that copies one range of bytes and has a side in the host.
struct CopyCallId {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
};

/// The calls whose arguments are read. Copies of rectangles, arrays, batches and graphs are not
/// among them.
extern const CopyCallId kCopyCalls[];
extern const std::size_t kCopyCallCount;

/// The calls that wait for a stream, or for all of a context, or that destroy a stream.
extern const CopyCallId kWaitCalls[];
extern const std::size_t kWaitCallCount;

/// What a call has ended.
enum class Ends {
  stream,     ///< the wait for all that is in a stream
  context,    ///< the wait for all that is in a context
  destroyed,  ///< a stream, without a wait: another one may get its handle
};

struct WaitCall {
  Ends ends;
  Queue queue;  ///< without the context
};

/// @return what a call has ended; nothing for one that does not wait.
std::optional<WaitCall> wait_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                  const void* arguments) noexcept;

/// @return what was passed to the call that is told of; nothing for one that is none of these.
std::optional<CopyCall> copy_call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                  const void* arguments) noexcept;

}  // namespace lanescope::inject
