#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/buffer.hpp"
#include "cuda/cuda_handles.hpp"
#include "host/topology.hpp"

namespace lanescope {

/// A host thread and a kernel that pass a counter back and forth through host memory.
class PingPong {
 public:
  /// The two words lie at `words`, host memory that `device` reaches, on cache lines of
  /// their own. The calling thread runs on `cpus` while it works for this probe; empty
  /// leaves it alone. Throws `Error`.
  PingPong(std::shared_ptr<const Topology> topology, BufferPool& pool, PlaceSpec words, int device,
           std::vector<int> cpus);

  /// Seconds of each of `turns` round trips, by the host's clock: from the host's write
  /// until it sees the GPU's answer. Throws `Error` when the GPU does not answer in time;
  /// the kernel ends then, too.
  std::vector<double> run(int turns);

 private:
  std::uint32_t& ping() const;
  std::uint32_t& pong() const;
  std::vector<double> play(std::uint32_t turns) const;

  std::shared_ptr<const Topology> topology_;
  std::vector<int> cpus_;
  std::shared_ptr<Buffer> words_;
  Stream stream_;
};

}  // namespace lanescope
