#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>

#include "intercept/entries.hpp"
#include "intercept/in_place_of.hpp"
#include "intercept/real_dlsym.hpp"

/// Streams that are captured into graphs: what is put into one happens later, if ever.
namespace lanescope::intercept {

inline std::atomic<int> captures{0};  ///< Under way in this process.

/// Counts them; `kVariant` 1 has a default stream for each thread.
template <int kVariant>
struct Captures {
  static inline std::atomic<decltype(&cuStreamBeginCapture)> begin{nullptr};
  static inline std::atomic<decltype(&cuStreamBeginCaptureToGraph)> begin_into{nullptr};
  static inline std::atomic<decltype(&cuStreamEndCapture)> end{nullptr};

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

  static void* in_place_of(std::string_view name, void* function) noexcept {
    if (name == "cuStreamBeginCapture") return swapped(begin, &began, function);
    if (name == "cuStreamBeginCaptureToGraph") return swapped(begin_into, &began_into, function);
    if (name == "cuStreamEndCapture") return swapped(end, &ended, function);
    return function;
  }
};

/// @return what stands in place of a function that begins or ends a capture, found by its name;
/// the function itself where it is none, or that of the first versions, which has no mode.
inline void* wrapped_capture(std::string_view name, int cuda_version, bool per_thread,
                             void* function) noexcept {
  if (name == "cuStreamBeginCapture" && cuda_version < 10010) return function;
  return per_thread ? Captures<1>::in_place_of(name, function)
                    : Captures<0>::in_place_of(name, function);
}

/// The same, found by its symbol.
inline void* wrapped_capture(Symbol symbol, void* function) noexcept {
  if (symbol.name == "cuStreamBeginCapture") return function;
  const bool second = symbol.name == "cuStreamBeginCapture_v2";
  return wrapped_capture(second ? "cuStreamBeginCapture" : symbol.name, 12000, symbol.per_thread,
                         function);
}

/// @return the driver's function that tells whether a stream is captured.
template <int kVariant>
auto capture_query() noexcept {
  static const auto query = reinterpret_cast<decltype(&cuStreamIsCapturing)>(
      driver_symbol(kVariant == 0 ? "cuStreamIsCapturing" : "cuStreamIsCapturing_ptsz"));
  return query;
}

}  // namespace lanescope::intercept
