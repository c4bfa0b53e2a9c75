#include "calls/wrappers.hpp"

#include <cuda.h>

#include <atomic>
#include <string>

#include "calls/copy_apis.hpp"
#include "calls/real_dlsym.hpp"
#include "calls/recorder.hpp"

namespace lanescope::calls {

namespace {

/// Copies into a stream that is captured happen when its graph is launched, if ever.
std::atomic<int> captures{0};

decltype(&cuStreamIsCapturing) capture_query() noexcept {
  static const auto found =
      reinterpret_cast<decltype(&cuStreamIsCapturing)>(driver_symbol("cuStreamIsCapturing"));
  return found;
}

bool is_captured(CUstream stream) noexcept {
  if (captures.load(std::memory_order_relaxed) == 0 || capture_query() == nullptr) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return capture_query()(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

template <class... Arguments>
bool is_captured(Arguments...) noexcept {
  return false;
}

template <class First, class... Rest>
bool goes_into_capture(First first, Rest... rest) noexcept {
  if constexpr (sizeof...(rest) == 0)
    return is_captured(first);
  else
    return goes_into_capture(rest...);
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
    Ring* to = result == CUDA_SUCCESS ? ring() : nullptr;
    if (to == nullptr || goes_into_capture(arguments...)) return result;
    Copy copy;
    copy.call = kCall;
    Api::describe(copy, arguments...);
    to->add(copy, start, end);
    return result;
  }

  static void* in_place_of(void* function) noexcept {
    void* own = reinterpret_cast<void*>(&call);
    if (function != own) original.store(reinterpret_cast<Function>(function));
    return own;
  }
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
  static inline std::atomic<decltype(&cuStreamEndCapture)> end{nullptr};
  static inline std::atomic<decltype(&cuGraphLaunch)> launch{nullptr};

  static CUresult began(CUstream stream, CUstreamCaptureMode mode) {
    const CUresult result = begin.load()(stream, mode);
    if (result == CUDA_SUCCESS) captures.fetch_add(1);
    return result;
  }
  static CUresult ended(CUstream stream, CUgraph* graph) {
    const CUresult result = end.load()(stream, graph);
    if (result != CUDA_ERROR_ILLEGAL_STATE && captures.load() > 0) captures.fetch_sub(1);
    return result;
  }
  static CUresult launched(CUgraphExec graph, CUstream stream) {
    if (Ring* to = ring()) to->add_graph_launch();
    return launch.load()(graph, stream);
  }
};

template <class Function>
void* swapped(std::atomic<Function>& original, Function own, void* function) noexcept {
  if (function != reinterpret_cast<void*>(own))
    original.store(reinterpret_cast<Function>(function));
  return reinterpret_cast<void*>(own);
}

template <int kVariant>
void* wrapped_graph_call(std::string_view name, void* function) noexcept {
  using Own = Captures<kVariant>;
  if (name == "cuStreamBeginCapture") return swapped(Own::begin, &Own::began, function);
  if (name == "cuStreamEndCapture") return swapped(Own::end, &Own::ended, function);
  if (name == "cuGraphLaunch") return swapped(Own::launch, &Own::launched, function);
  return function;
}

}  // namespace

void* wrapped_entry(std::string_view name, int cuda_version, bool per_thread,
                    void* function) noexcept {
  for (const Entry& entry : kEntries)
    if (entry.name == name)
      return cuda_version < entry.least_version ? function
                                                : entry.in_place_of[per_thread ? 1 : 0](function);
  // that of the first versions has no mode
  if (name == "cuStreamBeginCapture" && cuda_version < 10010) return function;
  return per_thread ? wrapped_graph_call<1>(name, function) : wrapped_graph_call<0>(name, function);
}

void* wrapped_symbol(std::string_view symbol, void* function) noexcept {
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
  if (symbol == "cuStreamBeginCapture") return function;  // of the first versions, without a mode
  if (symbol == "cuStreamBeginCapture_v2") symbol = "cuStreamBeginCapture";
  return per_thread ? wrapped_graph_call<1>(symbol, function)
                    : wrapped_graph_call<0>(symbol, function);
}

}  // namespace lanescope::calls
