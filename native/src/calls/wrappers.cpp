#include "calls/wrappers.hpp"

#include <cuda.h>

#include <atomic>
#include <string>
#include <type_traits>

#include "calls/batches.hpp"
#include "calls/copy_apis.hpp"
#include "calls/in_place_of.hpp"
#include "calls/memory_places.hpp"
#include "calls/python_stack.hpp"
#include "calls/real_dlsym.hpp"
#include "calls/recorder.hpp"
#include "inject/same_errno.hpp"

namespace lanescope::calls {

namespace {

/// Copies into a stream that is captured happen when its graph is launched, if ever.
std::atomic<int> captures{0};

template <int kVariant>
auto capture_query() noexcept {
  static const auto query = reinterpret_cast<decltype(&cuStreamIsCapturing)>(
      driver_symbol(kVariant == 0 ? "cuStreamIsCapturing" : "cuStreamIsCapturing_ptsz"));
  return query;
}

template <int kVariant>
bool is_captured(CUstream stream) noexcept {
  const auto query = capture_query<kVariant>();
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
    return captures.load(std::memory_order_relaxed) > 0 && is_captured<kVariant>(first);
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

  static CUresult call(Arguments... arguments) {
    const Function function = original.load(std::memory_order_relaxed);
    const std::uint64_t start = now();
    const CUresult result = function(arguments...);
    const std::uint64_t end = now();
    if (result == CUDA_SUCCESS) {
      const inject::SameErrno guard;
      record(start, end, arguments...);
    }
    return result;
  }

  static void record(std::uint64_t start, std::uint64_t end, Arguments... arguments) noexcept {
    Ring* to = ring();
    if (to == nullptr || goes_into_capture<kVariant>(arguments...)) return;
    Copy copy;
    copy.call = kCall;
    Api::describe(copy, arguments...);
    if (copy.bytes >= to->stacks_from()) copy.stack = python_stack(*to);
    to->add(copy, start, end);
  }

  static void* in_place_of(void* function) noexcept { return swapped(original, &call, function); }
};

/// What is known of one call: how it is found, and what stands in its place.
struct Entry {
  std::string_view name;
  std::string_view suffix;
  int least_version;
  void* (*in_place_of[2])(void*) noexcept;
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

/// Counts what is under way, and what is launched: graphs copy without a call.
template <int kVariant>
struct Captures {
  static inline std::atomic<decltype(&cuStreamBeginCapture)> begin{nullptr};
  static inline std::atomic<decltype(&cuStreamBeginCaptureToGraph)> begin_into{nullptr};
  static inline std::atomic<decltype(&cuStreamEndCapture)> end{nullptr};
  static inline std::atomic<decltype(&cuGraphLaunch)> launch{nullptr};

  static CUresult began(CUstream stream, CUstreamCaptureMode mode) {
    const CUresult result = begin.load()(stream, mode);
    if (result == CUDA_SUCCESS) captures.fetch_add(1);
    return result;
  }
  static CUresult began_into(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                             const CUgraphEdgeData* edges, std::size_t count,
                             CUstreamCaptureMode mode) {
    const CUresult result = begin_into.load()(stream, graph, nodes, edges, count, mode);
    if (result == CUDA_SUCCESS) captures.fetch_add(1);
    return result;
  }
  static CUresult ended(CUstream stream, CUgraph* graph) {
    const CUresult result = end.load()(stream, graph);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
      captures.fetch_sub(1);
    return result;
  }
  static CUresult launched(CUgraphExec graph, CUstream stream) {
    const CUresult result = launch.load()(graph, stream);
    const inject::SameErrno guard;
    if (Ring* to = result == CUDA_SUCCESS ? ring() : nullptr) to->add_graph_launch();
    return result;
  }
};

template <int kVariant>
void* wrapped_graph_call(std::string_view name, void* function) noexcept {
  using Own = Captures<kVariant>;
  if (name == "cuStreamBeginCapture") return swapped(Own::begin, &Own::began, function);
  if (name == "cuStreamBeginCaptureToGraph")
    return swapped(Own::begin_into, &Own::began_into, function);
  if (name == "cuStreamEndCapture") return swapped(Own::end, &Own::ended, function);
  if (name == "cuGraphLaunch") return swapped(Own::launch, &Own::launched, function);
  return function;
}

/// CUDA begins. All that opens files is done now: a program may lock itself up before it copies,
/// by a filter of system calls, a limit on its files or another root.
struct Begin {
  static inline std::atomic<decltype(&cuInit)> original{nullptr};

  static CUresult call(unsigned flags) {
    const CUresult result = original.load(std::memory_order_relaxed)(flags);
    if (result != CUDA_SUCCESS) return result;
    const inject::SameErrno guard;
    prepare_places();
    capture_query<0>();
    capture_query<1>();
    now();
    ring();
    return result;
  }
};

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

}  // namespace

void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  for (const Entry& entry : kEntries)
    if (entry.name == name)
      return cuda_version < entry.least_version ? function
                                                : entry.in_place_of[per_thread ? 1 : 0](function);
  if (name == "cuInit") return swapped(Begin::original, &Begin::call, function);
  if (cuda_version >= kSecondHostCalls)
    if (void* change = wrapped_change(name, function); change != function) return change;
  if (void* batch = wrapped_batch(name, cuda_version, per_thread, function); batch != function)
    return batch;
  // that of the first versions has no mode
  if (name == "cuStreamBeginCapture" && cuda_version < 10010) return function;
  return per_thread ? wrapped_graph_call<1>(name, function) : wrapped_graph_call<0>(name, function);
}

void* wrapped_symbol(std::string_view symbol, void* function) noexcept {
  if (symbol == "cuInit") return swapped(Begin::original, &Begin::call, function);
  constexpr std::string_view kPerThread[] = {"_ptds", "_ptsz"};
  bool per_thread = false;
  for (const std::string_view end : kPerThread)
    if (symbol.ends_with(end)) {
      symbol.remove_suffix(end.size());
      per_thread = true;
    }
  for (const Entry& entry : kEntries)
    if (symbol.starts_with(entry.name) && symbol.substr(entry.name.size()) == entry.suffix)
      return entry.in_place_of[per_thread ? 1 : 0](function);
  const bool second = symbol.ends_with("_v2");
  const std::string_view base = second ? symbol.substr(0, symbol.size() - 3) : symbol;
  // these two have a second form, the first of which has other arguments or is the same
  if (second == (base == "cuMemHostRegister" || base == "cuMemAllocHost"))
    if (void* change = wrapped_change(base, function); change != function) return change;
  if (base == "cuMemcpyBatchAsync")
    return wrapped_batch(base, second ? 13000 : 12080, per_thread, function);
  if (symbol == "cuStreamBeginCapture") return function;  // of the first versions, without a mode
  if (symbol == "cuStreamBeginCapture_v2") symbol = "cuStreamBeginCapture";
  return per_thread ? wrapped_graph_call<1>(symbol, function)
                    : wrapped_graph_call<0>(symbol, function);
}

}  // namespace lanescope::calls
