#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "cuda/cuda_handles.hpp"

namespace lanescope {

/// A graph of work that is not yet made ready to run; owner.
class Graph {
 public:
  Graph() { check(cudaGraphCreate(&handle_, 0), "cudaGraphCreate"); }
  ~Graph() {
    if (handle_ != nullptr) forgive(cudaGraphDestroy(handle_));
  }
  Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;

  cudaGraph_t get() const noexcept { return handle_; }

  /// Adds a copy that waits for nothing. Throws `Error`.
  void add_copy(void* destination, const void* source, std::size_t bytes) {
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddMemcpyNode1D(&node, handle_, nullptr, 0, destination, source, bytes,
                                   cudaMemcpyDefault),
          "cudaGraphAddMemcpyNode1D");
  }

 private:
  cudaGraph_t handle_ = nullptr;
};

/// A graph made ready to run on the current device; owner. It outlives its `Graph`.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph) {
    check(cudaGraphInstantiate(&handle_, graph.get(), 0), "cudaGraphInstantiate");
  }
  ~GraphExec() {
    if (handle_ != nullptr) forgive(cudaGraphExecDestroy(handle_));
  }
  GraphExec(GraphExec&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  GraphExec& operator=(GraphExec&&) = delete;

  /// Sends it to the device ahead of its first launch. Throws `Error`.
  void upload(const Stream& stream) const {
    check(cudaGraphUpload(handle_, stream.get()), "cudaGraphUpload");
  }

  /// Launches it once. Throws `Error`.
  void launch(const Stream& stream) const {
    check(cudaGraphLaunch(handle_, stream.get()), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t handle_ = nullptr;
};

}  // namespace lanescope
