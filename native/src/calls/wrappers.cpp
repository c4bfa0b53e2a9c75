// What stands in place of the driver's calls that copy: functions that record it.

#include <cuda.h>

#include <atomic>
#include <string>
#include <tuple>
#include <type_traits>

#include "calls/batches.hpp"
#include "calls/copy_apis.hpp"
#include "calls/counted.hpp"
#include "calls/memory_places.hpp"
#include "calls/python_stack.hpp"
#include "calls/recorder.hpp"
#include "inject/same_errno.hpp"
#include "intercept/captures.hpp"
#include "intercept/entries.hpp"
#include "intercept/hooks.hpp"
#include "intercept/in_place_of.hpp"

namespace lanescope::calls {

namespace {

using intercept::Entry;
using intercept::swapped;

template <int kVariant>
[[gnu::noinline]] bool is_captured(CUstream stream) noexcept {
  const inject::SameErrno guard;
  const auto query = intercept::capture_query<kVariant>();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return query != nullptr && query(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// @return whether a call with these arguments, the last of which is its stream, if it has one, was
/// put into a graph.
template <int kVariant, class First, class... Rest>
bool goes_into_capture(First first, Rest... rest) noexcept {
  if constexpr (sizeof...(rest) > 0)
    return goes_into_capture<kVariant>(rest...);
  else if constexpr (std::is_same_v<First, CUstream>)
    return __builtin_expect(intercept::captures.load(std::memory_order_relaxed) > 0, 0) != 0 &&
           is_captured<kVariant>(first);
  else
    return false;
}

/// Of one call; `kVariant` 1 has a default stream for each thread.
template <class Api, int kCall, int kVariant, class Function>
struct Wrapper;

template <class Api, int kCall, int kVariant, class... Arguments>
struct Wrapper<Api, kCall, kVariant, void (*)(Copy&, Arguments...) noexcept> {
  using Function = CUresult (*)(Arguments...);
  static inline std::atomic<Function> original{nullptr};

  /// What is only counted saves no registers and goes on to the driver's function by a jump.
  static CUresult call(Arguments... arguments) {
    if constexpr (kCanBeCounted<Api>) {
      const std::uint64_t bytes = std::get<2>(std::tie(arguments...));
      if (is_only_counted(kCall, bytes) &&
          intercept::captures.load(std::memory_order_relaxed) == 0) {
        count(bytes);
        return original.load(std::memory_order_relaxed)(arguments...);
      }
    }
    return recorded(arguments...);
  }

  /// All of it in a row: each jump to where the processor has not been lately takes some ns.
  [[gnu::flatten, gnu::noinline]] static CUresult recorded(Arguments... arguments) {
    const Function function = original.load(std::memory_order_relaxed);
    const std::uint64_t start = now();
    const CUresult result = function(arguments...);
    const std::uint64_t end = now();
    if (result == CUDA_SUCCESS) [[likely]]
      record(start, end, arguments...);
    return result;
  }

  static void record(std::uint64_t start, std::uint64_t end, Arguments... arguments) noexcept {
    Ring* to = ring();
    if (to == nullptr || goes_into_capture<kVariant>(arguments...)) [[unlikely]]
      return;
    Copy copy;
    copy.call = kCall;
    Api::describe(copy, arguments...);
    if constexpr (kCanBeCounted<Api>)
      if (copy.bytes <= kSmallBytes && recording.close != 0) settle_counted(copy, start);
    if (copy.bytes >= to->stacks_from()) [[unlikely]]
      copy.stack = python_stack(*to);
    to->add(copy, start, end);
  }

  static void* in_place_of(void* function) noexcept { return swapped(original, &call, function); }
};

template <class Api, int kCall>
constexpr Entry entry() {
  using Function = decltype(&Api::describe);
  return {Api::kName,
          Api::kSuffix,
          Api::kLeastVersion,
          {Wrapper<Api, kCall, 0, Function>::in_place_of,
           Wrapper<Api, kCall, 1, Function>::in_place_of}};
}

constexpr int kSecondHostCalls = 6050;  // since then all of those have their arguments of today

// The places are the numbers of calls in records, which src/lanescope/trace/call_ring.py names.
constexpr Entry kEntries[] = {
    entry<HostToDevice, 0>(),
    entry<HostToDeviceAsync, 1>(),
    entry<DeviceToHost, 2>(),
    entry<DeviceToHostAsync, 3>(),
    entry<DeviceToDevice, 4>(),
    entry<DeviceToDeviceAsync, 5>(),
    entry<Any, 6>(),
    entry<AnyAsync, 7>(),
    entry<Peer, 8>(),
    entry<PeerAsync, 9>(),
    entry<Rectangle, 10>(),
    entry<RectangleUnaligned, 11>(),
    entry<RectangleAsync, 12>(),
    entry<Box, 13>(),
    entry<BoxAsync, 14>(),
};

/// Counts what is launched: graphs copy without a call.
template <int kVariant>
struct Launch {
  static inline std::atomic<decltype(&cuGraphLaunch)> original{nullptr};

  static CUresult call(CUgraphExec graph, CUstream stream) {
    const CUresult result = original.load()(graph, stream);
    const inject::SameErrno guard;
    if (Ring* to = result == CUDA_SUCCESS ? ring() : nullptr) to->add_graph_launch();
    return result;
  }

  static void* in_place_of(void* function) noexcept { return swapped(original, &call, function); }
};

void* wrapped_launch(std::string_view name, bool per_thread, void* function) noexcept {
  if (name != "cuGraphLaunch") return function;
  return per_thread ? Launch<1>::in_place_of(function) : Launch<0>::in_place_of(function);
}

/// A call after which memory of the host may be of another kind.
template <int kCall, class Function>
struct Change;

template <int kCall, class... Arguments>
struct Change<kCall, CUresult (*)(Arguments...)> {
  static inline std::atomic<CUresult (*)(Arguments...)> original{nullptr};

  static CUresult call(Arguments... arguments) {
    const CUresult result = original.load(std::memory_order_relaxed)(arguments...);
    places_changed();
    return result;
  }

  static void* in_place_of(void* function) noexcept { return swapped(original, &call, function); }
};

void* wrapped_change(std::string_view name, void* function) noexcept {
  if (name == "cuMemHostRegister")
    return Change<0, decltype(&cuMemHostRegister)>::in_place_of(function);
  if (name == "cuMemHostUnregister")
    return Change<1, decltype(&cuMemHostUnregister)>::in_place_of(function);
  if (name == "cuMemHostAlloc") return Change<2, decltype(&cuMemHostAlloc)>::in_place_of(function);
  if (name == "cuMemAllocHost") return Change<3, decltype(&cuMemAllocHost)>::in_place_of(function);
  if (name == "cuMemFreeHost") return Change<4, decltype(&cuMemFreeHost)>::in_place_of(function);
  return function;
}

/// @return the first of some functions that is another one than `function`, else that.
template <class... Others>
void* first_other(void* function, Others... others) noexcept {
  void* found = function;
  static_cast<void>((((found = others()) != function) || ...));
  return found;
}

}  // namespace

}  // namespace lanescope::calls

namespace lanescope::intercept {

bool is_wanted() noexcept {
  return calls::is_wanted();
}

void cuda_has_begun() noexcept {
  calls::prepare_places();
  capture_query<0>();
  capture_query<1>();
  calls::now();
  calls::ring();
}

void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  if (const Entry* entry = entry_of(calls::kEntries, name, cuda_version))
    return in_place_of(*entry, per_thread, function);
  return calls::first_other(
      function,
      [&] {
        return cuda_version >= calls::kSecondHostCalls ? calls::wrapped_change(name, function)
                                                       : function;
      },
      [&] { return calls::wrapped_batch(name, cuda_version, per_thread, function); },
      [&] { return calls::wrapped_launch(name, per_thread, function); },
      [&] { return wrapped_capture(name, cuda_version, per_thread, function); });
}

void* wrapped_symbol(std::string_view full, void* function) noexcept {
  const Symbol symbol = parsed(full);
  if (const Entry* entry = entry_of(calls::kEntries, symbol))
    return in_place_of(*entry, symbol.per_thread, function);
  const bool second = symbol.name.ends_with("_v2");
  const std::string_view base =
      second ? symbol.name.substr(0, symbol.name.size() - 3) : symbol.name;
  // these two have a second form, the first of which has other arguments or is the same
  const bool changes = second == (base == "cuMemHostRegister" || base == "cuMemAllocHost");
  return calls::first_other(
      function, [&] { return changes ? calls::wrapped_change(base, function) : function; },
      [&] {
        return calls::wrapped_batch(base, second ? 13000 : 12080, symbol.per_thread, function);
      },
      [&] { return calls::wrapped_launch(symbol.name, symbol.per_thread, function); },
      [&] { return wrapped_capture(symbol, function); });
}

}  // namespace lanescope::intercept
